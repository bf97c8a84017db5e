package org.apache.kafka.connect.runtime.distributed;
import java.nio.ByteBuffer;
import java.util.*;
import org.apache.kafka.connect.util.ConnectorTaskId;
public class Codec {
  static void p(String n, ByteBuffer b) { byte[] x = new byte[b.remaining()]; b.get(x); System.out.println(n + " " + HexFormat.of().formatHex(x)); }
  static ConnectorTaskId t(String c, int n) { return new ConnectorTaskId(c, n); }
  public static void main(String[] a) {
    p("metadata-v0", ConnectProtocol.serializeMetadata(new ConnectProtocol.WorkerState("http://a:8083/", 7)));
    ExtendedAssignment e = new ExtendedAssignment((short) 2, (short) 0, "m-1", "http://a:8083/", 9, List.of("x", "y"), List.of(t("x", 0), t("z", 1), t("x", 2)), List.of("w"), List.of(t("z", 3), t("w", 0)), 1234);
    ExtendedAssignment e1 = new ExtendedAssignment((short) 1, (short) 1, "m-1", "http://a:8083/", 9, List.of(), List.of(), List.of(), List.of(), 0);
    for (boolean s : new boolean[]{false, true}) {
      String v = s ? "-v2" : "-v1";
      p("metadata-none" + v, IncrementalCooperativeConnectProtocol.serializeMetadata(new ExtendedWorkerState("http://a:8083/", 7, null), s));
      p("metadata-empty" + v, IncrementalCooperativeConnectProtocol.serializeMetadata(new ExtendedWorkerState("http://a:8083/", 7, ExtendedAssignment.empty()), s));
      p("metadata" + v, IncrementalCooperativeConnectProtocol.serializeMetadata(new ExtendedWorkerState("http://a:8083/", 7, e), s));
      p("assignment" + v, IncrementalCooperativeConnectProtocol.serializeAssignment(e, s));
      p("assignment-error" + v, IncrementalCooperativeConnectProtocol.serializeAssignment(e1, s));
    }
    p("assignment-v0", ConnectProtocol.serializeAssignment(new ConnectProtocol.Assignment((short) 0, "m-1", "http://a:8083/", 9, List.of("x", "y"), List.of(t("x", 0), t("z", 1), t("x", 2)))));
    p("assignment-error-v0", ConnectProtocol.serializeAssignment(ConnectProtocol.Assignment.class.cast(new ConnectProtocol.Assignment((short) 1, "m-1", "http://a:8083/", 9, List.of(), List.of()))));
  }
}
