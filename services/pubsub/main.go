// Serves Google's fake of Pub/Sub on a port. Subscriptions may wait for an acknowledgement for two seconds
// only, where Google's shortest time is ten.
package main

import (
	"log"
	"os"
	"strconv"
	"time"

	"cloud.google.com/go/pubsub/v2/pstest"
)

func main() {
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	pstest.SetMinAckDeadline(2 * time.Second)
	pstest.NewServerWithPort(port)
	select {}
}
