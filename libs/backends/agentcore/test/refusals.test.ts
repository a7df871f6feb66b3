/** AgentCore's refusals: executions, operators and logs learn the reason but never our keys. */
import { join } from 'node:path'
import {
  CofferdamError,
  type Backend,
  type RateGate,
  type Sandbox,
  type SandboxId,
} from '@cofferdam/contract'
import { beforeAll, expect, it, onTestFinished, vi } from 'vitest'
import type { Fault } from '../double/faults.ts'
import { AT_MOST, describeAgentcore, FLEET, invoke, KEYS, writeKeys } from './at-double.ts'
import { jobSpec, printed, python } from '@cofferdam/backend-remote/testing'

const RAN = python('print("ran")')

describeAgentcore('agentcore’s refusals', (at) => {
  const { backend } = at
  const open = async (by?: Backend): Promise<Sandbox> => await at.open(RAN, {}, by)

  beforeAll(() => {
    const secretAccessKey = 'wrong/secret+of/the/worker/refusals0000000'
    writeKeys(join(at.folder, 'wrong'), { ...KEYS, secretAccessKey })
  })
  const failureOf = async (work: Promise<unknown>): Promise<Error> =>
    await work.then(
      () => expect.fail('it was not refused'),
      (error: Error) => error,
    )
  const start = (more: Partial<Fault>): Fault => ({
    operation: 'StartCodeInterpreterSession',
    kind: 'http',
    ...more,
  })
  /** All parts of the values that a logger could write. */
  const seen = (values: unknown): string =>
    JSON.stringify(values, (_name, value: unknown) =>
      value instanceof Error
        ? [Object.entries(value), value.name, value.message, value.stack, value.cause]
        : value,
    )
  function expectNoKeys(values: unknown): void {
    const all = seen(values)
    for (const key of Object.values(KEYS)) expect(all).not.toContain(key)
  }

  it('show none of our keys in errors or logs, whatever the service repeats', async () => {
    const message = `you sent ${Object.values(KEYS).join(' ')}`
    at.double.fault(start({ error: 'AccessDeniedException', message }))
    const refused = await failureOf(open())
    expect(refused.message).toContain('you sent <redacted> <redacted> <redacted>')
    const sandbox = await open()
    at.double.fault(invoke('exception', { error: 'accessDeniedException', message, times: 9 }))
    const lost = await failureOf(printed(sandbox, RAN))
    expect(lost.message).toContain('you sent <redacted>')
    expectNoKeys([refused, lost, at.logged])
  })

  it('of a signature contain the security token, which no error shows', async () => {
    const refused = await failureOf(open(backend({ credentials_file: join(at.folder, 'wrong') })))
    expect(seen(refused)).toContain('x-amz-security-token:<redacted>')
    expectNoKeys([refused, at.logged])
  })

  it('of an invalid request name what is wrong with it', async () => {
    at.double.fault(start({ error: 'ValidationException', reason: 'ResourceConflict', field: 'name' }))
    expect(await failureOf(open())).toMatchObject({
      code: 'sandbox_open_failed',
      details: {
        reason: 'session_start:ValidationException',
        invalid: 'ResourceConflict',
        fields: ['name'],
      },
    })
  })

  const ready = { type: 'text', text: 'fine' }
  it.each<[string, object, string]>([
    [
      'without the marker',
      { content: [ready], structuredContent: { stdout: 'fine', exitCode: 0 } },
      'marker',
    ],
    ['as an error', { content: [ready], isError: true, structuredContent: { exitCode: 0 } }, 'failed'],
    ['with an exit code', { content: [ready], structuredContent: { stdout: 'fine', exitCode: 1 } }, 'failed'],
    ['with text alone', { content: [ready] }, 'marker'],
  ])('of ours: a session whose first call ends %s is not used', async (_how, result, detail) => {
    at.double.fault(invoke('result', { result, times: 2 }))
    expect(await failureOf(open())).toMatchObject({
      code: 'sandbox_open_failed',
      details: { reason: `readiness:${detail}` },
    })
  })

  it('of a stop for a conflict are retried once, and then reported', async () => {
    const stop: Fault = {
      operation: 'StopCodeInterpreterSession',
      kind: 'http',
      error: 'ConflictException',
    }
    const sandbox = await open()
    at.double.fault(stop)
    await sandbox[Symbol.asyncDispose]()
    expect(at.double.sessions.running()).toEqual([])
    const second = await open()
    at.double.fault({ ...stop, times: 2 })
    expect(await failureOf(Promise.resolve(second[Symbol.asyncDispose]()))).toMatchObject({
      name: 'ConflictException',
    })
    expect(at.double.sessions.running()).toHaveLength(1)
  })

  it('of every stop are retried when the worker looks for leftovers', async () => {
    const stop: Fault = { operation: 'StopCodeInterpreterSession', kind: 'http', times: 3 }
    const by = backend()
    const sandbox = await open(by)
    at.double.fault(stop)
    await failureOf(Promise.resolve(sandbox[Symbol.asyncDispose]()))
    at.opened.splice(at.opened.indexOf(sandbox), 1)
    // Neither the start's answer nor the list that searches for the session arrives.
    at.double.fault(start({ kind: 'cut-after', times: 3 }), {
      operation: 'ListCodeInterpreterSessions',
      kind: 'cut-before',
      times: 3,
    })
    await failureOf(open(by))
    // The next session is not ready and cannot be stopped. The second attempt within this open works.
    at.double.fault(invoke('empty'), stop)
    await open(by)
    expect(at.double.sessions.running()).toHaveLength(4)
    await by.owners()
    expect(at.double.sessions.running()).toHaveLength(1)
  })

  it('of a stop for a session started seconds ago are retried', async () => {
    const by = backend()
    // Stop the clock, so that the start was seconds ago however slow the machine is.
    const clock = vi.spyOn(Date, 'now').mockReturnValue(Date.now())
    onTestFinished(() => clock.mockRestore())
    const sandbox = await open(by)
    at.double.fault({
      operation: 'StopCodeInterpreterSession',
      kind: 'http',
      error: 'ResourceNotFoundException',
      times: 2,
    })
    await sandbox[Symbol.asyncDispose]()
    expect(at.double.sessions.running()).toHaveLength(1)
    await by.owners()
    expect(at.double.sessions.running()).toEqual([])
  })

  it('of a start that takes effect after its caller gave up leave no session for long', async () => {
    const by = backend({ api_timeout_ms: 3000 })
    const over = Promise.withResolvers<undefined>()
    at.double.fault(start({ kind: 'delay', until: over.promise }))
    await failureOf(open(by))
    over.resolve(undefined)
    await expect.poll(() => at.double.sessions.running().length, AT_MOST).toBe(1)
    // One round of the janitor is enough, but its calls may time out on a slow machine.
    await expect.poll(() => by.owners().then(() => at.double.sessions.running(), String), AT_MOST).toEqual([])
  })

  it('of a start, and starts that are lost or not ready, let the same attempt retry at once', async () => {
    let isFull = true
    const take = async (bucket: string): Promise<void> => {
      if (isFull && bucket.endsWith(':Start')) throw new CofferdamError('backend_unavailable')
    }
    const by = backend({}, { rate: { take } })
    const spec = jobSpec(FLEET, RAN)
    let tries = 0
    function again(): Promise<Sandbox> {
      const sandboxId = `sbx_${String((tries += 1)).padStart(32, '0')}` as SandboxId
      return by.open({ ...spec, sandboxId }, AbortSignal.timeout(60_000))
    }
    await failureOf(again())
    isFull = false
    at.double.fault(invoke('empty', { times: 2 }))
    await failureOf(again())
    // This start gets no answer, so from now on the backend looks for its session.
    at.double.fault(start({ kind: 'cut-before', times: 3 }))
    await failureOf(again())
    const sandbox = await again()
    at.opened.push(sandbox)
    await by.owners()
    expect(await printed(sandbox, RAN)).toBe('ran\n')
  })

  it('by the fleet’s own rate do not end a program in an open sandbox', async () => {
    const waits: number[] = []
    const gate: RateGate = {
      take: (bucket, _perSecond, { waitMs }) => {
        if (bucket.endsWith(':Invoke')) waits.push(waitMs)
        // Like a bucket whose next turn is 20 s away.
        return waits.length > 1 && waitMs < 20_000 && bucket.endsWith(':Invoke')
          ? Promise.reject(new CofferdamError('backend_unavailable'))
          : Promise.resolve()
      },
    }
    const sandbox = await open(backend({}, { rate: gate }))
    expect(await printed(sandbox, RAN)).toBe('ran\n')
    expect(waits).toEqual([10_000, 60_000])
  })

  it('keep the connection: calls that are read to their end share one', async () => {
    const before = at.double.calls.length
    const sandbox = await open()
    await sandbox.write([{ path: 'a', bytes: Buffer.from('a') }])
    expect(await printed(sandbox, RAN)).toBe('ran\n')
    expect(await sandbox.read('a', 10)).toEqual(Buffer.from('a'))
    await sandbox[Symbol.asyncDispose]()
    const invoked = at.double.calls.slice(before).filter(({ tool }) => tool !== '')
    expect(invoked.length).toBeGreaterThan(3)
    // On a slow machine, a connection may be closed after some idle seconds.
    expect(new Set(invoked.map(({ port }) => port)).size).toBeLessThan(invoked.length)
  })

  it('of a session’s end leave no background program', async () => {
    const stop = new AbortController()
    const sandbox = await open(backend({ call_max_ms: 1000 }))
    const before = at.double.calls.length
    const running = sandbox.run(python('import time\ntime.sleep(600)'), {
      onOutput: () => undefined,
      maxOutputBytes: { stdout: 1000, stderr: 1000 },
      signal: stop.signal,
    })
    const tools = (): string[] => at.double.calls.slice(before).map(({ tool }) => tool)
    await expect.poll(tools, AT_MOST).toContain('getTask')
    // Covers all three attempts of the SDK: the session lives until a later request stops it.
    at.double.fault({
      operation: 'StopCodeInterpreterSession',
      kind: 'http',
      error: 'InternalServerException',
      times: 3,
    })
    stop.abort(new Error('the hard deadline'))
    await expect(running).rejects.toThrow('the hard deadline')
    await expect.poll(tools, AT_MOST).toContain('stopTask')
    // The fault may still refuse this stop. Then a later call stops the session.
    await Promise.allSettled([sandbox[Symbol.asyncDispose]()])
  })
})
