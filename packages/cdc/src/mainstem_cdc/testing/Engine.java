import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.format.Json;
import java.io.FileInputStream;
import java.io.FileWriter;
import java.io.PrintWriter;
import java.util.Properties;

/** Runs Debezium's engine until it is killed: java -cp 'libs/*' Engine.java PROPERTIES OUTPUT. */
public class Engine {
    public static void main(String[] given) throws Exception {
        Properties properties = new Properties();
        try (FileInputStream file = new FileInputStream(given[0])) {
            properties.load(file);
        }
        PrintWriter out = new PrintWriter(new FileWriter(given[1]));
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(Json.class)
            .using(properties)
            .using((success, message, error) -> {
                System.out.println("ended: " + message);
                if (error != null) error.printStackTrace();
            })
            .notifying((events, committer) -> {
                for (ChangeEvent<String, String> event : events) {
                    // Time, where it goes to, key and value, of which none has a tab or a line's end.
                    out.write(System.nanoTime() + "\t" + event.destination() + "\t" + event.key() + "\t"
                        + event.value() + "\n");
                    committer.markProcessed(event);
                }
                out.flush();
                committer.markBatchFinished();
            })
            .build();
        engine.run();
    }
}
