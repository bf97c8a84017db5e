import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs the main classes of Apache Kafka's command-line tools one after the other in one JVM. A command is a line of
 * space-separated base64 words: the class, what stdin holds, and the arguments. The answer is the exit code and what
 * went to stdout and stderr, in base64. A tool that exits is left where it stands, as System.exit would.
 */
public final class ToolRunner {
    private static final long TIMEOUT_S = 60;

    /** The run that a thread belongs to: threads of an earlier tool may go on and exit later. */
    private static final InheritableThreadLocal<Run> current = new InheritableThreadLocal<>();

    private static final class Run {
        final CompletableFuture<Integer> code = new CompletableFuture<>();
        final List<Runnable> hooks = new ArrayList<>();
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            List<String> words = new ArrayList<>();
            for (String word : line.split(" ", -1)) {
                words.add(new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8));
            }
            answers.println(run(words.get(0), words.get(1), words.subList(2, words.size())));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static String run(String tool, String stdin, List<String> args) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        System.setIn(new ByteArrayInputStream(stdin.getBytes(StandardCharsets.UTF_8)));
        System.setOut(new PrintStream(out, true));
        System.setErr(new PrintStream(err, true));
        Run run = new Run();
        current.set(run);
        Exit.Procedure exit = (status, message) -> {
            if (message != null) {
                System.err.println(message);
            }
            current.get().code.complete(status);
            park();
        };
        Exit.setExitProcedure(exit);
        Exit.setHaltProcedure(exit);
        Exit.setShutdownHookAdder((name, hook) -> current.get().hooks.add(hook));
        Thread thread = new Thread(() -> run.code.complete(call(tool, args)));
        thread.setDaemon(true);
        thread.start();
        int status;
        try {
            status = run.code.get(TIMEOUT_S, TimeUnit.SECONDS);
        } catch (java.util.concurrent.TimeoutException e) {
            System.err.println("still running after " + TIMEOUT_S + " s");
            status = -1;
        }
        for (Runnable hook : new ArrayList<>(run.hooks)) {
            hook.run();
        }
        Base64.Encoder base64 = Base64.getEncoder();
        return status + " " + base64.encodeToString(out.toByteArray()) + " " + base64.encodeToString(err.toByteArray());
    }

    private static int call(String tool, List<String> args) {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) args.toArray(new String[0]));
            return 0;
        } catch (InvocationTargetException e) {
            e.getCause().printStackTrace();
            return 1;
        } catch (ReflectiveOperationException e) {
            e.printStackTrace();
            return 127;
        }
    }

    /** Holds the calling thread for ever: whoever asked for the exit must not go on. */
    private static void park() {
        while (true) {
            try {
                Thread.sleep(Long.MAX_VALUE);
            } catch (InterruptedException e) {
                // a tool's own clean-up may interrupt its threads
            }
        }
    }
}
