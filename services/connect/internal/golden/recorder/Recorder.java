import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.Date;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** Fills in what Apache Kafka makes of each case: a line of a file is a case, its member "want" the outcome. */
public class Recorder {
    static final ObjectMapper json = new ObjectMapper();

    public static void main(String[] files) throws Exception {
        for (String file : files) {
            List<String> lines = new ArrayList<>();
            for (String line : Files.readAllLines(Path.of(file))) {
                ObjectNode test = (ObjectNode) json.readTree(line);
                test.remove("want");
                test.set("want", outcome(test));
                lines.add(json.writeValueAsString(test));
            }
            Files.write(Path.of(file), lines);
        }
    }

    static JsonNode outcome(ObjectNode test) throws Exception {
        Object plugin = Class.forName(test.get("class").asText()).getDeclaredConstructor().newInstance();
        Map<String, String> config = new HashMap<>();
        if (test.has("config")) test.get("config").fields().forEachRemaining(e -> config.put(e.getKey(), e.getValue().asText()));
        try {
            String use = test.path("use").asText("");
            if (plugin instanceof Transformation<?> t) t.configure(config);
            else if (plugin instanceof Predicate<?> p) p.configure(config);
            else if (use.equals("header")) {
                config.put("converter.type", "header");
                ((HeaderConverter) plugin).configure(config);
            } else ((Converter) plugin).configure(config, use.equals("key"));
        } catch (Exception e) {
            return json.createObjectNode().put("configError", e.toString());
        }
        try {
            return run(plugin, test);
        } catch (Exception e) {
            return json.createObjectNode().put("error", e.toString());
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static JsonNode run(Object plugin, ObjectNode test) {
        if (plugin instanceof Transformation<?> t) return record(((Transformation) t).apply(record(test.get("record"))));
        if (plugin instanceof Predicate<?> p) return json.getNodeFactory().booleanNode(((Predicate) p).test(record(test.get("record"))));
        boolean header = test.path("use").asText("").equals("header");
        if (test.has("bytes")) {
            byte[] in = bytes(test.get("bytes"));
            return typed(header ? ((HeaderConverter) plugin).toConnectHeader("topic", "header", in) : ((Converter) plugin).toConnectData("topic", in));
        }
        SchemaAndValue in = typed(test.get("data"));
        byte[] out = header ? ((HeaderConverter) plugin).fromConnectHeader("topic", "header", in.schema(), in.value())
            : ((Converter) plugin).fromConnectData("topic", in.schema(), in.value());
        return bytes(out);
    }

    // Bytes are a text where they are UTF-8, else {"b": base64}.

    static byte[] bytes(JsonNode n) {
        if (n.isNull()) return null;
        return n.isTextual() ? n.asText().getBytes(StandardCharsets.UTF_8) : Base64.getDecoder().decode(n.get("b").asText());
    }

    static JsonNode bytes(byte[] b) {
        if (b == null) return json.nullNode();
        String text = new String(b, StandardCharsets.UTF_8);
        if (Arrays.equals(text.getBytes(StandardCharsets.UTF_8), b)) return json.getNodeFactory().textNode(text);
        return json.createObjectNode().put("b", Base64.getEncoder().encodeToString(b));
    }

    static ConnectRecord<?> record(JsonNode n) {
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode h : n.path("headers")) headers.add(h.get(0).asText(), typed(h.get(1)));
        SchemaAndValue key = typed(n.path("key")), value = typed(n.path("value"));
        Integer partition = n.hasNonNull("partition") ? n.get("partition").asInt() : null;
        Long timestamp = n.hasNonNull("timestamp") ? n.get("timestamp").asLong() : null;
        String topic = n.path("topic").asText("topic");
        if (!n.has("offset")) return new SourceRecord(Map.of(), Map.of(), topic, partition, key.schema(), key.value(), value.schema(), value.value(), timestamp, headers);
        return new SinkRecord(topic, partition == null ? 0 : partition, key.schema(), key.value(), value.schema(), value.value(), n.get("offset").asLong(), timestamp, TimestampType.CREATE_TIME, headers);
    }

    static JsonNode record(ConnectRecord<?> r) {
        if (r == null) return json.nullNode();
        ObjectNode n = json.createObjectNode().put("topic", r.topic());
        if (r.kafkaPartition() != null) n.put("partition", r.kafkaPartition());
        if (r.timestamp() != null) n.put("timestamp", r.timestamp());
        if (r instanceof SinkRecord s) n.put("offset", s.kafkaOffset());
        n.set("key", typed(new SchemaAndValue(r.keySchema(), r.key())));
        n.set("value", typed(new SchemaAndValue(r.valueSchema(), r.value())));
        ArrayNode headers = n.putArray("headers");
        for (Header h : r.headers()) headers.addArray().add(h.key()).add(typed(new SchemaAndValue(h.schema(), h.value())));
        return n;
    }

    static SchemaAndValue typed(JsonNode n) {
        if (n == null || n.isMissingNode() || n.isNull()) return SchemaAndValue.NULL;
        Schema s = schema(n.path("schema"));
        return new SchemaAndValue(s, value(n.path("value"), s));
    }

    static JsonNode typed(SchemaAndValue v) {
        if (v == null || v.schema() == null && v.value() == null) return json.nullNode();
        ObjectNode n = json.createObjectNode();
        if (v.schema() != null) n.set("schema", schema(v.schema()));
        n.set("value", value(v.value(), v.schema()));
        return n;
    }

    // A schema is the name of its type, with a ? if it is optional, or an object.

    static Schema schema(JsonNode n) {
        if (n.isMissingNode() || n.isNull()) return null;
        String type = n.isTextual() ? n.asText() : n.get("type").asText();
        boolean optional = type.endsWith("?");
        Schema.Type t = Schema.Type.valueOf(optional ? type.substring(0, type.length() - 1) : type);
        SchemaBuilder b = switch (t) {
            case ARRAY -> SchemaBuilder.array(schema(n.path("value")));
            case MAP -> SchemaBuilder.map(schema(n.path("key")), schema(n.path("value")));
            default -> new SchemaBuilder(t);
        };
        if (optional) b.optional();
        if (n.has("name")) b.name(n.get("name").asText());
        if (n.has("version")) b.version(n.get("version").asInt());
        if (n.has("doc")) b.doc(n.get("doc").asText());
        for (JsonNode p : n.path("parameters")) b.parameter(p.get(0).asText(), p.get(1).asText());
        for (JsonNode f : n.path("fields")) b.field(f.get(0).asText(), schema(f.get(1)));
        if (n.has("default")) b.defaultValue(value(n.get("default"), b.build()));
        return b.build();
    }

    static JsonNode schema(Schema s) {
        if (s == null) return json.nullNode(); // of the elements of an array that are not alike
        ObjectNode n = json.createObjectNode();
        n.put("type", s.type() + (s.isOptional() ? "?" : ""));
        if (s.name() != null) n.put("name", s.name());
        if (s.version() != null) n.put("version", s.version());
        if (s.doc() != null) n.put("doc", s.doc());
        if (s.parameters() != null && !s.parameters().isEmpty()) {
            ArrayNode all = n.putArray("parameters");
            s.parameters().forEach((k, v) -> all.addArray().add(k).add(v));
        }
        if (s.type() == Schema.Type.STRUCT) {
            ArrayNode all = n.putArray("fields");
            for (Field f : s.fields()) all.addArray().add(f.name()).add(schema(f.schema()));
        }
        if (s.type() == Schema.Type.MAP) n.set("key", schema(s.keySchema()));
        if (s.type() == Schema.Type.MAP || s.type() == Schema.Type.ARRAY) n.set("value", schema(s.valueSchema()));
        if (s.defaultValue() != null) n.set("default", value(s.defaultValue(), s));
        return n.size() == 1 ? n.get("type") : n;
    }

    // Booleans, strings and arrays are JSON's; everything else is an object of one member that tells its type.

    static Object value(JsonNode n, Schema s) {
        if (n.isMissingNode() || n.isNull()) return null;
        if (n.isBoolean()) return n.asBoolean();
        if (n.isTextual()) return n.asText();
        if (n.isArray()) {
            List<Object> list = new ArrayList<>();
            for (JsonNode e : n) list.add(value(e, s == null ? null : s.valueSchema()));
            return list;
        }
        Map.Entry<String, JsonNode> e = n.fields().next();
        JsonNode v = e.getValue();
        switch (e.getKey()) {
            case "i8": return (byte) v.asInt();
            case "i16": return (short) v.asInt();
            case "i32": return v.asInt();
            case "i64": return v.asLong();
            case "f32": return Float.valueOf(v.asText());
            case "f64": return Double.valueOf(v.asText());
            case "b": return Base64.getDecoder().decode(v.asText());
            case "d": return new BigDecimal(new BigInteger(v.get(0).asText()), v.get(1).asInt());
            case "t": return new Date(v.asLong());
            case "m": {
                Map<Object, Object> map = new LinkedHashMap<>();
                for (JsonNode p : v) map.put(value(p.get(0), s == null ? null : s.keySchema()), value(p.get(1), s == null ? null : s.valueSchema()));
                return map;
            }
            case "s": {
                Struct struct = new Struct(n.has("of") ? schema(n.get("of")) : s);
                List<Field> fields = struct.schema().fields();
                for (int i = 0; i < fields.size(); i++) if (!v.get(i).isNull()) struct.put(fields.get(i), value(v.get(i), fields.get(i).schema()));
                return struct;
            }
            default: throw new IllegalArgumentException("value " + n);
        }
    }

    static JsonNode value(Object o, Schema s) {
        if (o == null) return json.nullNode();
        if (o instanceof Boolean b) return json.getNodeFactory().booleanNode(b);
        if (o instanceof String text) return json.getNodeFactory().textNode(text);
        ObjectNode n = json.createObjectNode();
        if (o instanceof Byte v) return n.put("i8", v);
        if (o instanceof Short v) return n.put("i16", v);
        if (o instanceof Integer v) return n.put("i32", v);
        if (o instanceof Long v) return n.put("i64", v);
        if (o instanceof Float v) return n.put("f32", v.toString());
        if (o instanceof Double v) return n.put("f64", v.toString());
        if (o instanceof Date v) return n.put("t", v.getTime());
        if (o instanceof byte[] v) return n.put("b", Base64.getEncoder().encodeToString(v));
        if (o instanceof ByteBuffer v) return n.put("b", Base64.getEncoder().encodeToString(org.apache.kafka.common.utils.Utils.toArray(v.duplicate())));
        if (o instanceof BigInteger v) {
            n.putArray("d").add(v.toString()).add(0);
            return n;
        }
        if (o instanceof BigDecimal v) {
            n.putArray("d").add(v.unscaledValue().toString()).add(v.scale());
            return n;
        }
        if (o instanceof Collection<?> list) {
            ArrayNode a = json.createArrayNode();
            for (Object e : list) a.add(value(e, s == null ? null : s.valueSchema()));
            return a;
        }
        if (o instanceof Map<?, ?> map) {
            ArrayNode a = n.putArray("m");
            map.entrySet().stream().map(e -> {
                ArrayNode p = json.createArrayNode();
                return p.add(value(e.getKey(), s == null ? null : s.keySchema())).add(value(e.getValue(), s == null ? null : s.valueSchema()));
            }).sorted((x, y) -> x.toString().compareTo(y.toString())).forEach(a::add);
            return n;
        }
        if (o instanceof Struct struct) {
            ArrayNode a = n.putArray("s");
            for (Field f : struct.schema().fields()) a.add(value(struct.getWithoutDefault(f.name()), f.schema()));
            if (!struct.schema().equals(s)) n.set("of", schema(struct.schema()));
            return n;
        }
        throw new IllegalArgumentException("value of " + o.getClass());
    }
}
