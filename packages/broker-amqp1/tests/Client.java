// A program of JMS: "send URL ADDRESS" sends a message of each of its kinds to a queue, "take URL ADDRESS COUNT"
// prints what it takes from one.

import jakarta.jms.*;
import java.util.Base64;
import java.util.Enumeration;
import org.apache.qpid.jms.JmsConnectionFactory;

class Client {
    public static void main(String[] given) throws Exception {
        JmsConnectionFactory factory = new JmsConnectionFactory(given[1]);
        try (Connection connection = factory.createConnection()) {
            connection.start();
            Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
            Queue queue = session.createQueue(given[2]);
            if (given[0].equals("send")) {
                send(session, session.createProducer(queue), queue);
            } else {
                take(session.createConsumer(queue), Integer.parseInt(given[3]));
            }
        }
    }

    static void send(Session session, MessageProducer to, Queue queue) throws JMSException {
        TextMessage text = session.createTextMessage("grün");
        text.setJMSType("colour");
        text.setJMSCorrelationID("c-1");
        text.setJMSReplyTo(queue);
        text.setStringProperty("name", "value");
        text.setIntProperty("number", 7);
        text.setBooleanProperty("yes", true);
        text.setStringProperty("JMSXGroupID", "g1");
        to.setPriority(7);
        to.setTimeToLive(3_600_000);
        to.send(text);
        BytesMessage bytes = session.createBytesMessage();
        bytes.writeBytes(new byte[] {0, 1, -1});
        to.setPriority(4);
        to.setTimeToLive(0);
        to.send(bytes);
        MapMessage map = session.createMapMessage();
        map.setString("text", "a");
        map.setLong("number", 9_007_199_254_740_993L);
        map.setBytes("bytes", new byte[] {1, 2});
        to.send(map);
        StreamMessage stream = session.createStreamMessage();
        stream.writeString("a");
        stream.writeDouble(1.5);
        to.send(stream);
        to.send(session.createMessage());
        to.send(session.createObjectMessage(new java.util.ArrayList<>(java.util.List.of(1, 2))));
    }

    static void take(MessageConsumer from, int count) throws JMSException {
        for (int number = 0; number < count; number++) {
            Message message = from.receive(10_000);
            String body;
            if (message instanceof TextMessage) {
                body = "text " + ((TextMessage) message).getText();
            } else {
                BytesMessage held = (BytesMessage) message;
                byte[] bytes = new byte[(int) held.getBodyLength()];
                held.readBytes(bytes);
                body = "bytes " + Base64.getEncoder().encodeToString(bytes);
            }
            StringBuilder told = new StringBuilder(body);
            told.append("|").append(message.getJMSMessageID()).append("|").append(message.getJMSDestination());
            told.append("|").append(message.getStringProperty("JMSXGroupID")).append("|").append(message.getJMSDeliveryMode());
            for (Enumeration<?> names = message.getPropertyNames(); names.hasMoreElements();) {
                String name = (String) names.nextElement();
                if (!name.startsWith("JMS")) {
                    told.append("|").append(name).append("=").append(message.getObjectProperty(name));
                }
            }
            System.out.println(told);
            message.acknowledge();
        }
    }
}
