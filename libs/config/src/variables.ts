/** Every environment variable of every app, used to detect mistyped ones. */
import { z } from 'zod'

export const KNOWN_VARIABLES = [
  'COFFERDAM_API_KEY',
  'COFFERDAM_BACKENDS',
  'COFFERDAM_CONFIG',
  'COFFERDAM_DATA_DIR',
  'COFFERDAM_DRAIN_MS',
  'COFFERDAM_HOST',
  'COFFERDAM_LANES',
  'COFFERDAM_LOG_LEVEL',
  'COFFERDAM_MEMORY_BUDGET_MIB',
  'COFFERDAM_METRICS_HOST',
  'COFFERDAM_METRICS_PORT',
  'COFFERDAM_OUTPUT_KEYS',
  'COFFERDAM_PORT',
  'COFFERDAM_REQUIRE',
  'COFFERDAM_SLOTS',
  'COFFERDAM_TRACE_SAMPLE_RATIO',
  'COFFERDAM_TRACE_SLOW_MS',
  'COFFERDAM_URL',
] as const

/** `a, b,c` → `['a','b','c']`. Empty text → []. */
export const commaList = z.string().transform((text) =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== ''),
)
