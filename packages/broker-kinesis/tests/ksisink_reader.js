// Reads a stream by HTTP and takes its records apart by AWS's own library: node reader.js URL STREAM MODULES
'use strict'
const path = require('path')
const { deaggregateSync } = require(path.join(process.argv[4], 'aws-kinesis-agg'))

async function call (operation, request) {
  const answer = await fetch(process.argv[2], {
    method: 'POST',
    headers: {
      'Content-Type': 'application/x-amz-json-1.1',
      'X-Amz-Target': `Kinesis_20131202.${operation}`,
      'X-Amz-Date': '20000101T000000Z',
      Authorization:
        'AWS4-HMAC-SHA256 Credential=test/20000101/us-east-1/kinesis/aws4_request, SignedHeaders=host, Signature=0'
    },
    body: JSON.stringify(request)
  })
  if (!answer.ok) throw new Error(`${operation}: ${await answer.text()}`)
  return answer.json()
}

async function main () {
  const StreamName = process.argv[3]
  const { StreamDescription } = await call('DescribeStream', { StreamName })
  for (const { ShardId } of StreamDescription.Shards) {
    const asked = { StreamName, ShardId, ShardIteratorType: 'TRIM_HORIZON' }
    let { ShardIterator } = await call('GetShardIterator', asked)
    while (ShardIterator) {
      const { Records, NextShardIterator, MillisBehindLatest } = await call('GetRecords', { ShardIterator })
      for (const record of Records) {
        const kinesis = {
          data: record.Data, partitionKey: record.PartitionKey, sequenceNumber: record.SequenceNumber
        }
        deaggregateSync(kinesis, true, (error, messages) => {
          if (error) throw error
          for (const message of messages) {
            console.log(JSON.stringify({
              shard: ShardId,
              key: message.partitionKey,
              hashKey: message.explicitPartitionKey || null,
              value: Buffer.from(message.data, 'base64').toString('hex')
            }))
          }
        })
      }
      if (!Records.length && !MillisBehindLatest) break
      ShardIterator = NextShardIterator
    }
  }
}

main().catch((error) => { console.error(error); process.exit(1) })
