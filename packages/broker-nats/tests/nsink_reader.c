/* A reader in C, over the system's libnats: what the tests hold our sinks against.

   nsink_reader stream URL STREAM SUBJECT
   nsink_reader core URL SUBJECT COUNT

   `stream` prints all messages that the stream has on the subject, in its order; `core` prints COUNT messages
   as they come, after it has said "ready" on standard error. A line is subject, Nats-Msg-Id, value of the header
   `shop`, and body, each in hex, with spaces between them and `-` for what is not there. Without a message for
   ten seconds, or two minutes of `core`, it ends with 3. */

#include <nats/nats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(natsStatus status, const char *what) {
    if (status != NATS_OK) {
        fprintf(stderr, "%s: %s\n", what, natsStatus_GetText(status));
        exit(status == NATS_TIMEOUT ? 3 : 1);
    }
}

static void hex(const char *bytes, int size, char end) {
    for (int at = 0; at < size; at++) printf("%02x", (unsigned char)bytes[at]);
    putchar(end);
}

static void header(natsMsg *message, const char *name) {
    const char *value = NULL;
    if (natsMsgHeader_Get(message, name, &value) == NATS_OK && value != NULL)
        hex(value, (int)strlen(value), ' ');
    else
        printf("- ");
}

static void take(natsSubscription *subscription, long count, long patience) {
    for (long number = 0; number < count; number++) {
        natsMsg *message = NULL;
        must(natsSubscription_NextMsg(&message, subscription, patience), "natsSubscription_NextMsg");
        hex(natsMsg_GetSubject(message), (int)strlen(natsMsg_GetSubject(message)), ' ');
        header(message, "Nats-Msg-Id");
        header(message, "shop");
        hex(natsMsg_GetData(message), natsMsg_GetDataLength(message), '\n');
        natsMsg_Destroy(message);
    }
}

int main(int count, char **words) {
    natsConnection *connection = NULL;
    natsSubscription *subscription = NULL;
    if (count != 5 || (strcmp(words[1], "stream") && strcmp(words[1], "core"))) return 2;
    must(natsConnection_ConnectTo(&connection, words[2]), "natsConnection_ConnectTo");
    if (!strcmp(words[1], "core")) {
        must(natsConnection_SubscribeSync(&subscription, connection, words[3]), "subscribe");
        must(natsConnection_Flush(connection), "flush");
        fprintf(stderr, "ready\n");
        take(subscription, atol(words[4]), 120000);
    } else {
        jsCtx *stream = NULL;
        jsStreamInfo *info = NULL;
        jsSubOptions options;
        must(natsConnection_JetStream(&stream, connection, NULL), "natsConnection_JetStream");
        must(js_GetStreamInfo(&info, stream, words[3], NULL, NULL), "js_GetStreamInfo");
        must(jsSubOptions_Init(&options), "jsSubOptions_Init");
        options.Stream = words[3];
        options.Ordered = true;
        must(js_SubscribeSync(&subscription, stream, words[4], NULL, &options, NULL), "js_SubscribeSync");
        take(subscription, (long)info->State.Msgs, 10000);
        jsStreamInfo_Destroy(info);
        jsCtx_Destroy(stream);
    }
    natsSubscription_Destroy(subscription);
    natsConnection_Destroy(connection);
    nats_Close();
    return 0;
}
