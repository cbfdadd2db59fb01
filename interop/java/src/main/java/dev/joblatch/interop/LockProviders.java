package dev.joblatch.interop;

import javax.sql.DataSource;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.provider.jdbctemplate.JdbcTemplateLockProvider;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.jdbc.core.JdbcTemplate;

/** The lock providers of a Spring application, as docs/from-shedlock.md shows them and as the tests run them. */
final class LockProviders {
    private LockProviders() {}

    static LockProvider databaseTime(DataSource dataSource, String table) {
        return new JdbcTemplateLockProvider(
            JdbcTemplateLockProvider.Configuration.builder()
                .withJdbcTemplate(new JdbcTemplate(dataSource))
                .withTableName(table)
                .usingDbTime()
                .build());
    }

    static LockProvider ownClockInUtc(DataSource dataSource, String table) {
        return new JdbcTemplateLockProvider(
            JdbcTemplateLockProvider.Configuration.builder()
                .withJdbcTemplate(new JdbcTemplate(dataSource))
                .withTableName(table)
                .forceUtcTimeZone()
                .build());
    }

    static LockProvider redis(RedisConnectionFactory connections, String environment) {
        return new RedisLockProvider.Builder(connections)
            .environment(environment)
            .safeUpdate(true)
            .build();
    }

    /** As it is by default: whoever gives back, deletes the lock that is there. */
    static LockProvider redisWithoutSafeUpdate(RedisConnectionFactory connections, String environment) {
        return new RedisLockProvider.Builder(connections)
            .environment(environment)
            .build();
    }
}
