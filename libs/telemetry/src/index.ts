/** OpenTelemetry setup, span and metric names, logger. */
import type { Telemetry, TelemetryOptions } from './telemetry.ts'

export * from './api.ts'
export { createLogger, type Logger, type LoggerOptions } from './create-logger.ts'
export { createMetricsServer, type MetricsServer, type MetricsServerOptions } from './metrics-server.ts'
export type { RecentSpan } from './recent-spans.ts'
export type { EndedTrace, Telemetry, TelemetryOptions } from './telemetry.ts'

/** Starts tracing and metrics, and loads the SDK only then. Throws only for an invalid endpoint URL. */
export async function startTelemetry(options: TelemetryOptions): Promise<Telemetry> {
  const { startSdk } = await import('./sdk.ts')
  return startSdk(options)
}
