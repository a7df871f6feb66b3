/** What leaves a worker as logs, spans and metrics: how it is named, sampled and redacted. */
import { compileRules, redactText } from '@cofferdam/executor'
import type { Logger, TelemetryOptions } from '@cofferdam/telemetry'
import workspace from '../package.json' with { type: 'json' }
import type { WorkerConfig } from './config.ts'

const RULES = compileRules([], {})

/** Takes secrets of known forms out. */
export const redactKnownSecrets = (text: string): string => redactText(RULES, text).text

/** The telemetry of a worker that does not share another app's. */
export function telemetryOptions(config: WorkerConfig, instance: string, logger: Logger): TelemetryOptions {
  return {
    service: 'cofferdam-worker',
    version: workspace.version,
    instance,
    ...(config.otlpEndpoint === undefined ? {} : { otlpEndpoint: config.otlpEndpoint }),
    redact: redactKnownSecrets,
    ...(config.traceSampleRatio === undefined ? {} : { sampleRatio: config.traceSampleRatio }),
    slowMs: config.traceSlowMs,
    // Nobody asks a worker: what is shown of its spans goes through Redis (createTraceShelf).
    recentSpans: 0,
    logger,
  }
}
