package dev.joblatch.interop;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import javax.sql.DataSource;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;

/**
 * Does what stdin says, one line at a time, and answers each line with one on stdout. Words are separated by tabs,
 * durations are milliseconds. Ends when stdin does.
 *
 * <pre>
 * open      PROVIDER KIND URL USER PASSWORD SPACE   opened
 * lock      PROVIDER LOCK NAME AT_MOST AT_LEAST     granted | refused
 * extend    LOCK AT_MOST AT_LEAST                   extended | refused
 * unlock    LOCK                                    unlocked
 * increment PROVIDER NAME TIMES FILE                incremented REFUSALS
 * </pre>
 *
 * Anything that throws is answered with {@code error CLASS: MESSAGE}.
 */
public final class Steered {
    private static final Duration INCREMENT_AT_MOST = Duration.ofSeconds(30);

    private final Map<String, LockProvider> providers = new HashMap<>();
    private final Map<String, SimpleLock> locks = new HashMap<>();

    public static void main(String[] args) throws IOException {
        Steered steered = new Steered();
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                answers.println(steered.answer(line.split("\t", -1)));
            }
        }
        System.exit(0); // pools have threads of their own
    }

    private String answer(String[] words) {
        try {
            return switch (words[0]) {
                case "open" -> open(words[1], words[2], words[3], words[4], words[5], words[6]);
                case "lock" -> lock(words[1], words[2], words[3], millis(words[4]), millis(words[5]));
                case "extend" -> extend(words[1], millis(words[2]), millis(words[3]));
                case "unlock" -> unlock(words[1]);
                case "increment" -> increment(words[1], words[2], Integer.parseInt(words[3]), Path.of(words[4]));
                default -> throw new IllegalArgumentException("Nothing is called " + words[0]);
            };
        } catch (Exception e) {
            return ("error " + e.getClass().getName() + ": " + e.getMessage()).replaceAll("\\s+", " ");
        }
    }

    /** SPACE is the table, or the environment on Redis. */
    private String open(String id, String kind, String url, String user, String password, String space) {
        providers.put(id, switch (kind) {
            case "databaseTime" -> LockProviders.databaseTime(pool(url, user, password), space);
            case "ownClockInUtc" -> LockProviders.ownClockInUtc(pool(url, user, password), space);
            case "redis" -> LockProviders.redis(redis(url), space);
            case "redisWithoutSafeUpdate" -> LockProviders.redisWithoutSafeUpdate(redis(url), space);
            default -> throw new IllegalArgumentException("No provider is called " + kind);
        });
        return "opened";
    }

    private static DataSource pool(String url, String user, String password) {
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(url);
        config.setUsername(user);
        config.setPassword(password);
        config.setMaximumPoolSize(2);
        return new HikariDataSource(config);
    }

    private static RedisConnectionFactory redis(String url) {
        URI server = URI.create(url);
        LettuceConnectionFactory connections =
            new LettuceConnectionFactory(new RedisStandaloneConfiguration(server.getHost(), server.getPort()));
        connections.afterPropertiesSet();
        connections.start();
        return connections;
    }

    private String lock(String provider, String id, String name, Duration atMost, Duration atLeast) {
        Optional<SimpleLock> lock = providers.get(provider).lock(new LockConfiguration(Instant.now(), name, atMost, atLeast));
        lock.ifPresent(granted -> locks.put(id, granted));
        return lock.isPresent() ? "granted" : "refused";
    }

    private String extend(String id, Duration atMost, Duration atLeast) {
        Optional<SimpleLock> lock = locks.remove(id).extend(atMost, atLeast);
        lock.ifPresent(extended -> locks.put(id, extended));
        return lock.isPresent() ? "extended" : "refused";
    }

    private String unlock(String id) {
        locks.remove(id).unlock();
        return "unlocked";
    }

    /** Reads the number in the file and writes one more, which others could do in between, but for the lock. */
    private String increment(String provider, String name, int times, Path file)
        throws IOException, InterruptedException {
        int refusals = 0;
        for (int done = 0; done < times; ) {
            Optional<SimpleLock> lock = providers.get(provider)
                .lock(new LockConfiguration(Instant.now(), name, INCREMENT_AT_MOST, Duration.ZERO));
            if (lock.isEmpty()) {
                refusals++;
            } else {
                int number = Integer.parseInt(Files.readString(file).trim());
                Thread.sleep(1);
                Path written = Path.of(file + "." + ProcessHandle.current().pid());
                Files.writeString(written, Integer.toString(number + 1));
                Files.move(written, file, StandardCopyOption.ATOMIC_MOVE);
                lock.get().unlock();
                done++;
            }
            Thread.sleep(1);
        }
        return "incremented " + refusals;
    }

    private static Duration millis(String text) {
        return Duration.ofMillis(Long.parseLong(text));
    }
}
