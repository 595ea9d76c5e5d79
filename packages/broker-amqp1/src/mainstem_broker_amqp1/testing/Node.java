// A broker of ActiveMQ Artemis by itself: FOLDER, PORT, "user:password" or nothing, and for TLS the port,
// the files (PEM) of its certificate with the key, and of those whose clients it trusts.

import java.util.concurrent.CountDownLatch;
import org.apache.activemq.artemis.core.config.Configuration;
import org.apache.activemq.artemis.core.config.impl.ConfigurationImpl;
import org.apache.activemq.artemis.core.config.impl.SecurityConfiguration;
import org.apache.activemq.artemis.core.security.Role;
import org.apache.activemq.artemis.core.server.JournalType;
import org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ;
import org.apache.activemq.artemis.core.settings.impl.AddressFullMessagePolicy;
import org.apache.activemq.artemis.core.settings.impl.AddressSettings;
import org.apache.activemq.artemis.api.core.SimpleString;
import org.apache.activemq.artemis.spi.core.security.ActiveMQJAASSecurityManager;
import org.apache.activemq.artemis.spi.core.security.jaas.InVMLoginModule;
import java.util.Set;

class Node {
    public static void main(String[] given) throws Exception {
        String folder = given[0];
        String login = given[2];
        Configuration made = new ConfigurationImpl()
            .setJournalDirectory(folder + "/journal")
            .setBindingsDirectory(folder + "/bindings")
            .setLargeMessagesDirectory(folder + "/large")
            .setPagingDirectory(folder + "/paging")
            .setJournalType(JournalType.NIO)
            .setJournalFileSize(4 << 20)
            .setJournalMinFiles(2)
            .setMaxDiskUsage(100)
            .setSecurityEnabled(!login.isEmpty())
            .addAcceptorConfiguration("amqp", "tcp://127.0.0.1:" + given[1] + "?protocols=AMQP");
        if (given.length > 3) {
            made.addAcceptorConfiguration("amqps", "tcp://127.0.0.1:" + given[3]
                + "?protocols=AMQP;sslEnabled=true;keyStoreType=PEM;keyStorePath=" + given[4]
                + ";needClientAuth=true;trustStoreType=PEMCA;trustStorePath=" + given[5]);
        }
        made.addAddressSetting("#", new AddressSettings()
            .setDeadLetterAddress(SimpleString.of("DLQ"))
            .setAutoCreateDeadLetterResources(true)
            .setMaxDeliveryAttempts(10)
            .setMaxSizeBytes(64 << 20)
            .setAddressFullMessagePolicy(AddressFullMessagePolicy.PAGE));
        made.addAddressSetting("full.#", new AddressSettings()
            .setMaxSizeBytes(100_000)
            .setAddressFullMessagePolicy(AddressFullMessagePolicy.BLOCK));
        made.addAddressSetting("failing.#", new AddressSettings()
            .setMaxSizeBytes(100_000)
            .setAddressFullMessagePolicy(AddressFullMessagePolicy.FAIL));
        made.addAddressSetting("absent.#", new AddressSettings()
            .setAutoCreateQueues(false)
            .setAutoCreateAddresses(false));
        EmbeddedActiveMQ broker = new EmbeddedActiveMQ().setConfiguration(made);
        if (!login.isEmpty()) {
            String[] parts = login.split(":", 2);
            SecurityConfiguration known = new SecurityConfiguration();
            known.addUser(parts[0], parts[1]);
            known.addRole(parts[0], "all");
            broker.setSecurityManager(new ActiveMQJAASSecurityManager(InVMLoginModule.class.getName(), known));
            made.putSecurityRoles("#", Set.of(
                new Role("all", true, true, true, true, true, true, true, true, true, true, false, false)));
        }
        broker.start();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                broker.stop();
            } catch (Exception failed) {
                failed.printStackTrace();
            }
        }));
        new CountDownLatch(1).await();
    }
}
