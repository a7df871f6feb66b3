/** OpenTelemetry setup, span and metric names, logger. */
export * from './api.ts'
export { createLogger, type Logger, type LoggerOptions } from './create-logger.ts'
export { createMetricsServer, type MetricsServer, type MetricsServerOptions } from './metrics-server.ts'
export type { RecentSpan } from './recent-spans.ts'
export { startTelemetry, type EndedTrace, type Telemetry, type TelemetryOptions } from './start-telemetry.ts'
