// Sends messages in transactions, one step for each line of standard input, and answers each with a line.
//   java -cp LIBS Transactions.java URL TOPIC
//   begin NAME | send NAME VALUE | plain VALUE | commit NAME | abort NAME
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.transaction.Transaction;

public class Transactions {
    public static void main(String[] given) throws Exception {
        var open = new HashMap<String, Transaction>();
        var lines = new BufferedReader(new InputStreamReader(System.in));
        try (var client = PulsarClient.builder().serviceUrl(given[0]).enableTransaction(true).build();
                var producer = client.newProducer().topic(given[1]).enableBatching(false)
                        .sendTimeout(0, TimeUnit.SECONDS).create()) {
            System.out.println("ready");
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                var word = line.split(" ");
                switch (word[0]) {
                    case "begin" -> open.put(word[1], client.newTransaction()
                            .withTransactionTimeout(5, TimeUnit.MINUTES).build().get());
                    case "send" -> producer.newMessage(open.get(word[1])).value(word[2].getBytes()).send();
                    case "plain" -> producer.newMessage().value(word[1].getBytes()).send();
                    case "commit" -> open.remove(word[1]).commit().get();
                    case "abort" -> open.remove(word[1]).abort().get();
                    default -> throw new IllegalArgumentException(line);
                }
                System.out.println("done");
            }
        }
        System.exit(0);
    }
}
