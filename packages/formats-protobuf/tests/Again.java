import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Reads messages, a line of base64 each, and tells each as text and as what Java writes of it. */
class Again {
  public static void main(String[] told) throws Exception {
    Map<String, FileDescriptor> files = new HashMap<>();
    for (FileDescriptorProto file : FileDescriptorSet.parseFrom(Files.readAllBytes(Path.of(told[0]))).getFileList()) {
      FileDescriptor[] needed = file.getDependencyList().stream().map(files::get).toArray(FileDescriptor[]::new);
      files.put(file.getName(), FileDescriptor.buildFrom(file, needed));
    }
    var kind = files.get(told[1]).findMessageTypeByName(told[2]);
    for (String line : new String(System.in.readAllBytes()).split("\n")) {
      DynamicMessage read = DynamicMessage.parseFrom(kind, Base64.getDecoder().decode(line));
      String text = Base64.getEncoder().encodeToString(read.toString().getBytes("UTF-8"));
      System.out.println(text + " " + Base64.getEncoder().encodeToString(read.toByteArray()));
    }
  }
}
