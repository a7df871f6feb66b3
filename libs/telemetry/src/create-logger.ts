/** Creates loggers: pino with redacted JSON lines, which have the IDs of the active span. */
import { trace } from '@opentelemetry/api'
import { pino, type DestinationStream, type Logger as PinoLogger } from 'pino'
import { createTextGuard, type GuardText } from './guard-text.ts'
import { prettyLine } from './pretty-line.ts'

export type Logger = PinoLogger

export interface LoggerOptions {
  service: string
  /** Default `info`. */
  level?: 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal' | 'silent'
  /** Human-readable lines instead of JSON. Default false. */
  pretty?: boolean
  /** Default `stderr`, because stdout is for a command's own output. A stream is for tests. */
  destination?: 'stdout' | 'stderr' | DestinationStream
  /** Redacts secrets in every string of a line. Default: only the keys below are censored. */
  redact?: (text: string) => string
}

/** Keys whose value is always censored, at the top level and up to two levels below. */
const SECRET_KEYS = [
  'authorization',
  'cookie',
  'password',
  'secret',
  'token',
  'api_key',
  'apiKey',
  'redis_url',
  'redisUrl',
  'database_url',
  'databaseUrl',
  'env',
  'source',
  'stdin',
] as const
const PATHS = SECRET_KEYS.flatMap((key) => [key, `*.${key}`, `*.*.${key}`])

/** Deeper values are dropped, because log lines are flat. */
const MAX_DEPTH = 5

/** The logger writes synchronously, so that the last lines before a crash are not lost. */
export function createLogger(options: LoggerOptions): Logger {
  const { service, level = 'info', destination = 'stderr' } = options
  const guard = options.redact === undefined ? null : createTextGuard(options.redact)
  return pino(
    {
      level,
      base: { service, pid: process.pid },
      mixin: activeSpan,
      redact: { paths: PATHS, censor: '[redacted]' },
      serializers: { err: (error: unknown) => guarded(pino.stdSerializers.err(asError(error)), guard, 0) },
      ...(guard === null
        ? {}
        : {
            formatters: { log: (facts) => guardFacts(facts, guard) },
            hooks: {
              logMethod(args, method) {
                Reflect.apply(method, this, guardArguments(args, guard))
              },
            },
          }),
    },
    sinkOf(destination, options.pretty === true),
  )
}

function activeSpan(): Record<string, string> {
  const active = trace.getActiveSpan()?.spanContext()
  return active === undefined ? {} : { trace_id: active.traceId, span_id: active.spanId }
}

function sinkOf(destination: NonNullable<LoggerOptions['destination']>, pretty: boolean): DestinationStream {
  if (!pretty)
    return typeof destination === 'string'
      ? pino.destination({ fd: fdOf(destination), sync: true })
      : destination
  if (typeof destination !== 'string') return { write: (line) => destination.write(prettyLine(line, false)) }
  const stream = destination === 'stdout' ? process.stdout : process.stderr
  return { write: (line) => void stream.write(prettyLine(line, stream.isTTY)) }
}

const fdOf = (destination: 'stdout' | 'stderr'): number => (destination === 'stdout' ? 1 : 2)

const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)))

/**
 * Redacts messages and arguments. If a line has an error but no message, the error's redacted message is
 * added, because pino would log the original one.
 */
function guardArguments(args: readonly unknown[], guard: GuardText): unknown[] {
  const [first, ...rest] = args.map((arg) => (typeof arg === 'string' ? guard(arg) : arg))
  const error = first instanceof Error ? first : errOf(first)
  if (error === null) return [first, ...rest]
  const facts = first instanceof Error ? { err: first } : first
  return rest.length > 0 ? [facts, ...rest] : [facts, '%s', guard(error.message)]
}

const errOf = (facts: unknown): Error | null =>
  typeof facts === 'object' && facts !== null && 'err' in facts && facts.err instanceof Error
    ? facts.err
    : null

/**
 * Redacts the fields of a line. Errors are left as they are, because pino passes them later to a serializer
 * that redacts them.
 */
function guardFacts(facts: Record<string, unknown>, guard: GuardText): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(facts).map(([key, value]) => [
      key,
      value instanceof Error ? value : guarded(value, guard, 0),
    ]),
  )
}

function guarded(value: unknown, guard: GuardText | null, depth: number): unknown {
  if (guard === null) return value
  if (typeof value === 'string') return guard(value)
  if (typeof value !== 'object' || value === null) return value
  if (depth >= MAX_DEPTH) return '[too deep]'
  if (value instanceof Error) return guarded(pino.stdSerializers.err(value), guard, depth + 1)
  if (Array.isArray(value)) return value.map((item) => guarded(item, guard, depth + 1))
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, guarded(item, guard, depth + 1)]),
  )
}
