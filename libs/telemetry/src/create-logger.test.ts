import { ROOT_CONTEXT, trace, context } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { afterEach, describe, expect, it } from 'vitest'
import { createLogger, type LoggerOptions } from './create-logger.ts'

const SECRET = 'hunter2-hunter2'
afterEach(() => context.disable())

function logTo(options: Partial<LoggerOptions> = {}) {
  const written: string[] = []
  const logger = createLogger({
    service: 'cofferdam-test',
    destination: { write: (line) => void written.push(line) },
    redact: (text) => text.replaceAll(SECRET, '[redacted]'),
    ...options,
  })
  return { logger, written, facts: () => JSON.parse(written.at(-1) ?? '{}') as Record<string, unknown> }
}

describe('createLogger', () => {
  it('writes one JSON line with service, level and facts', () => {
    const { logger, written, facts } = logTo()
    logger.info({ execution_id: 'exe_1' }, 'taken by %s', 'wrk_1')
    expect(written).toHaveLength(1)
    expect(facts()).toMatchObject({
      level: 30,
      service: 'cofferdam-test',
      execution_id: 'exe_1',
      msg: 'taken by wrk_1',
    })
  })

  it('writes only records of its level and above', () => {
    const { logger, written } = logTo({ level: 'warn' })
    logger.info('no')
    logger.warn('yes')
    expect(written).toHaveLength(1)
  })

  it('adds the IDs of the active span', () => {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
    const { logger, facts } = logTo()
    const spanContext = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), traceFlags: 1 }
    context.with(trace.setSpanContext(ROOT_CONTEXT, spanContext), () => logger.info('inside'))
    expect(facts()).toMatchObject({ trace_id: 'a'.repeat(32), span_id: 'b'.repeat(16) })
    logger.info('outside')
    expect(facts()).not.toHaveProperty('trace_id')
  })

  it('redacts messages, arguments, facts, errors and their causes', () => {
    const { logger, written } = logTo()
    const error = new Error(`login ${SECRET}`, { cause: new Error(`because ${SECRET}`) })
    logger.error({ err: error, deep: { list: [SECRET] }, other: error }, `message ${SECRET} %s`, SECRET)
    logger.error(error)
    logger.warn({ detail: SECRET })
    logger.child({ component: 'x' }).info({ detail: SECRET })
    expect(written).toHaveLength(4)
    for (const line of written) {
      expect(line).not.toContain(SECRET)
      expect(line).toContain('[redacted]')
      expect(() => JSON.parse(line)).not.toThrow()
    }
  })

  it('censors values with secret names, with or without a redactor', () => {
    const written: string[] = []
    const plain = createLogger({ service: 's', destination: { write: (line) => void written.push(line) } })
    plain.info({
      authorization: 'Bearer x1',
      headers: { cookie: 'x2' },
      a: { b: { password: 'x3' } },
      env: { A: 'x4' },
    })
    expect(written[0]).not.toMatch(/x[1-4]/)
  })

  it('writes human-readable lines on request', () => {
    const { logger, written } = logTo({ pretty: true })
    logger.info({ n: 1 }, 'hello')
    expect(written[0]).toMatch(/^\d\d:\d\d:\d\d\.\d{3} INFO {2}hello n=1\n$/)
  })
})
