/* A peer in C, over the system's libzmq: what the tests hold ours against.

   zeromq_peer push|pull|pub|sub bind|connect ADDRESS COUNT [curve-server SECRET | curve-client SERVER PUBLIC
   SECRET | plain USER PASSWORD]

   push and pub send COUNT messages; pull and sub read COUNT and print each as its frames in hex, with spaces
   between frames. A message is: a topic "c.N", a number of 8 bytes (big-endian), and a value "from C N".
   Without a peer that takes or gives anything for $PATIENCE milliseconds it ends with 3. */

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

static void must(int result, const char *what) {
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", what, zmq_strerror(zmq_errno()));
        exit(zmq_errno() == EAGAIN ? 3 : 1);
    }
}

static void set(void *socket, int option, const void *value, size_t size) {
    must(zmq_setsockopt(socket, option, value, size), "zmq_setsockopt");
}

static void set_text(void *socket, int option, const char *text) {
    set(socket, option, text, strlen(text));
}

static void secure(void *socket, int count, char **words) {
    int one = 1;
    if (count == 2 && !strcmp(words[0], "curve-server")) {
        set(socket, ZMQ_CURVE_SERVER, &one, sizeof one);
        set_text(socket, ZMQ_CURVE_SECRETKEY, words[1]);
    } else if (count == 4 && !strcmp(words[0], "curve-client")) {
        set_text(socket, ZMQ_CURVE_SERVERKEY, words[1]);
        set_text(socket, ZMQ_CURVE_PUBLICKEY, words[2]);
        set_text(socket, ZMQ_CURVE_SECRETKEY, words[3]);
    } else if (count == 3 && !strcmp(words[0], "plain")) {
        set_text(socket, ZMQ_PLAIN_USERNAME, words[1]);
        set_text(socket, ZMQ_PLAIN_PASSWORD, words[2]);
    } else if (count) {
        fprintf(stderr, "no such security\n");
        exit(2);
    }
}

static void send_all(void *socket, int count, int subscribed) {
    char text[64];
    if (subscribed) { /* the first subscription: what is sent before it is lost */
        zmq_msg_t told;
        zmq_msg_init(&told);
        must(zmq_msg_recv(&told, socket, 0), "no subscription");
        zmq_msg_close(&told);
    }
    for (int number = 0; number < count; number++) {
        uint8_t wide[8] = {0};
        for (int at = 0; at < 4; at++) wide[7 - at] = (uint8_t)((uint32_t)number >> (8 * at));
        int size = snprintf(text, sizeof text, "c.%d", number % 3);
        must(zmq_send(socket, text, (size_t)size, ZMQ_SNDMORE), "zmq_send");
        must(zmq_send(socket, wide, sizeof wide, ZMQ_SNDMORE), "zmq_send");
        size = snprintf(text, sizeof text, "from C %d", number);
        must(zmq_send(socket, text, (size_t)size, 0), "zmq_send");
    }
}

static void read_all(void *socket, int count) {
    for (int number = 0; number < count; number++) {
        int more = 1;
        while (more) {
            zmq_msg_t frame;
            zmq_msg_init(&frame);
            must(zmq_msg_recv(&frame, socket, 0), "zmq_msg_recv");
            const uint8_t *data = zmq_msg_data(&frame);
            for (size_t at = 0; at < zmq_msg_size(&frame); at++) printf("%02x", data[at]);
            more = zmq_msg_more(&frame);
            putchar(more ? ' ' : '\n');
            zmq_msg_close(&frame);
        }
        fflush(stdout);
    }
}

int main(int argc, char **argv) {
    if (argc < 5) return 2;
    const char *kind = argv[1];
    const char *given = getenv("PATIENCE");
    int count = atoi(argv[4]), patience = given ? atoi(given) : 20000, one = 1;
    int pub = !strcmp(kind, "pub"), sub = !strcmp(kind, "sub"), push = !strcmp(kind, "push");
    void *context = zmq_ctx_new();
    /* An XPUB socket is a PUB socket that is told of subscriptions. */
    void *socket = zmq_socket(context, pub ? ZMQ_XPUB : sub ? ZMQ_SUB : push ? ZMQ_PUSH : ZMQ_PULL);
    set(socket, ZMQ_RCVTIMEO, &patience, sizeof patience);
    set(socket, ZMQ_SNDTIMEO, &patience, sizeof patience);
    int linger = push || pub ? patience : 0; /* a reader has nothing to see off */
    set(socket, ZMQ_LINGER, &linger, sizeof linger);
    if (push) set(socket, ZMQ_IMMEDIATE, &one, sizeof one);
    if (pub) set(socket, ZMQ_SNDHWM, &count, sizeof count); /* or it drops what is too much at once */
    if (sub) set(socket, ZMQ_SUBSCRIBE, "", 0);
    secure(socket, argc - 5, argv + 5);
    int bind = !strcmp(argv[2], "bind");
    must(bind ? zmq_bind(socket, argv[3]) : zmq_connect(socket, argv[3]), argv[3]);
    if (push || pub)
        send_all(socket, count, pub);
    else
        read_all(socket, count);
    zmq_close(socket);
    zmq_ctx_term(context);
    return 0;
}
