/** Whether a reader gets sums since the start or what is new. */
import { AggregationTemporality, InstrumentType } from '@opentelemetry/sdk-metrics'

/**
 * Cumulative, but for observed gauges: there the SDK would repeat the last value for ever when a reader fails or is
 * gone, and a stale queue depth is worse than a gap.
 */
export const temporalityOf = (type: InstrumentType): AggregationTemporality =>
  type === InstrumentType.OBSERVABLE_GAUGE ? AggregationTemporality.DELTA : AggregationTemporality.CUMULATIVE
