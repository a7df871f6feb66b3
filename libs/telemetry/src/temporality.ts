/** Whether a reader gets cumulative sums or deltas. */
import { AggregationTemporality, InstrumentType } from '@opentelemetry/sdk-metrics'

/**
 * Cumulative, except for observed gauges. For those the SDK would repeat the last value for ever if the
 * gauge's callback fails, and a stale queue depth is worse than a gap.
 */
export const temporalityOf = (type: InstrumentType): AggregationTemporality =>
  type === InstrumentType.OBSERVABLE_GAUGE ? AggregationTemporality.DELTA : AggregationTemporality.CUMULATIVE
