import { describe, expect, it } from 'vitest'
import { executionRequestSchema, type ExecutionRequestInput } from './request.ts'
import { canHaveRunSession, hasRunSession, withoutSession, withRunSession } from './run-session.ts'
import { isRunSessionKey, runSessionKey, sessionKeySchema } from './session-key.ts'

const parse = (input: Partial<ExecutionRequestInput> = {}) =>
  executionRequestSchema.parse({
    tenant_id: 't',
    agent_id: 'a',
    run_id: 'r',
    program: { type: 'script', language: 'python', source: '' },
    ...input,
  })

describe("the key of a run's session", () => {
  it('names agent and run, and differs if either does', () => {
    expect(runSessionKey('analyst', 'run-1')).toBe('run:analyst:run-1')
    const names = ['a', 'a.b', 'b', 'run', 'A', 'a@b', 'x'.repeat(128)]
    const keys = names.flatMap((agent) => names.map((run) => runSessionKey(agent, run)))
    expect(new Set(keys).size).toBe(names.length ** 2)
    for (const key of keys)
      expect([isRunSessionKey(key), sessionKeySchema.safeParse(key).success]).toEqual([true, true])
  })

  it.each(['run:a:b', 'run:a', 'run:', 'run:a:b:c', 'a:b', ':a', 'run::b', 'RUN:a:b'])(
    'cannot be chosen by a caller: %s',
    (key) => {
      expect(() => parse({ session: { key } })).toThrow()
    },
  )

  it("is accepted for operations on a session's files, only in its full form", () => {
    const files = (key: string) => parse({ program: { type: 'files', op: 'list' }, session: { key } })
    expect(files('run:a:r').session?.key).toBe('run:a:r')
    for (const key of ['run:a', 'run:a:b:c', 'run::b', 'other:a:b']) expect(() => files(key)).toThrow()
  })
})

describe('a request with a run ID', () => {
  it('gets the session of its run unless it sets session or reuse', () => {
    expect(withRunSession(parse()).session).toEqual({ key: 'run:a:r', scope: 'files' })
    for (const own of [
      parse({ run_id: undefined }),
      parse({ session: { key: 'r' } }),
      parse({ session: { key: 'r' }, reuse: 'session' }),
      parse({ reuse: 'job' }),
      parse({ reuse: 'tenant' }),
    ]) {
      expect(canHaveRunSession(own)).toBe(false)
      expect(withRunSession(own)).toBe(own)
      expect(hasRunSession(own)).toBe(false)
    }
  })

  it('can be recognised as using the session, and be changed to its own sandbox', () => {
    const inside = withRunSession(parse())
    expect(hasRunSession(inside)).toBe(true)
    const outside = withoutSession(inside)
    expect([hasRunSession(outside), outside.session, outside.reuse]).toEqual([false, undefined, 'job'])
    expect(withRunSession(outside)).toBe(outside)
    // A `files` program names the session itself, so it did not get the session of its run.
    expect(
      hasRunSession(parse({ program: { type: 'files', op: 'list' }, session: { key: 'run:a:r' } })),
    ).toBe(false)
  })
})
