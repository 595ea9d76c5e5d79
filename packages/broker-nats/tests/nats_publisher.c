/* A publisher in C, over the system's libnats: what the sources are fed with by a client that is not nats-py.

   nats_publisher URL SUBJECT COUNT stream|core

   Publishes the numbers from 0, each with the header `n` (the number in hex) and the header `kind` twice
   (`one` and `two`). To a `stream` each with the message id of its number, and every tenth number twice, so
   that the stream has to drop a copy; `core` publishes and flushes. */

#include <nats/nats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(natsStatus status, const char *what) {
    if (status != NATS_OK) {
        fprintf(stderr, "%s: %s\n", what, natsStatus_GetText(status));
        exit(1);
    }
}

int main(int words, char **word) {
    natsConnection *connection = NULL;
    jsCtx *stream = NULL;
    if (words != 5) return 2;
    int stored = !strcmp(word[4], "stream");
    must(natsConnection_ConnectTo(&connection, word[1]), "natsConnection_ConnectTo");
    must(natsConnection_JetStream(&stream, connection, NULL), "natsConnection_JetStream");
    for (int number = 0; number < atoi(word[3]); number++) {
        char body[16], hex[16];
        natsMsg *message = NULL;
        int size = snprintf(body, sizeof body, "%d", number);
        snprintf(hex, sizeof hex, "%x", (unsigned)number);
        for (int copy = 0; copy < (stored && number % 10 == 0 ? 2 : 1); copy++) {
            must(natsMsg_Create(&message, word[2], NULL, body, size), "natsMsg_Create");
            must(natsMsgHeader_Add(message, "n", hex), "natsMsgHeader_Add");
            must(natsMsgHeader_Add(message, "kind", "one"), "natsMsgHeader_Add");
            must(natsMsgHeader_Add(message, "kind", "two"), "natsMsgHeader_Add");
            if (stored) {
                jsPubOptions options;
                jsPubOptions_Init(&options);
                options.MsgId = body;
                must(js_PublishMsg(NULL, stream, message, &options, NULL), "js_PublishMsg");
            } else {
                must(natsConnection_PublishMsg(connection, message), "natsConnection_PublishMsg");
            }
            natsMsg_Destroy(message);
        }
    }
    must(natsConnection_Flush(connection), "natsConnection_Flush");
    jsCtx_Destroy(stream);
    natsConnection_Destroy(connection);
    nats_Close();
    return 0;
}
