/** What AgentCore refuses, and what an execution, an operator and a log hear of it: why, and nothing of our keys. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  CofferdamError,
  type Backend,
  type RateGate,
  type Sandbox,
  type SandboxId,
} from '@cofferdam/contract'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import {
  startAgentcoreDouble,
  type AgentcoreDouble,
} from '../../../infra/doubles/agentcore/agentcore-double.ts'
import type { Fault } from '../../../infra/doubles/agentcore/faults.ts'
import { missing, NODE } from '../../../infra/doubles/jail.ts'
import { createAgentcoreBackend } from '../src/agentcore/index.ts'
import type { BackendDeps } from '../src/deps.ts'
import { jobSpec, printed, python } from './remote-run.ts'

const why = missing()
/** A busy machine takes its time; nothing here waits for it to pass. */
const AT_MOST = { timeout: 30_000, interval: 20 }
const SECRETS = {
  accessKeyId: 'AKIACANARYCANARY0002',
  secretAccessKey: 'canary/secret+of/the/worker/refusals00000',
}
const TOKEN = `IQoJcanary${'t0ken+of/the='.repeat(12)}`
const RAN = python('print("ran")')

describe.skipIf(why !== null && process.env['COFFERDAM_REQUIRE'] !== 'all')(
  `agentcore’s refusals ${why ?? ''}`,
  () => {
    const folder = mkdtempSync(join(tmpdir(), 'cofferdam-agentcore-'))
    const logged: unknown[] = []
    const log = (fields: object, message: string): void => void logged.push(fields, message)
    const logger = { debug: log, info: log, warn: log }
    const opened: AsyncDisposable[] = []
    let double: AgentcoreDouble

    beforeAll(async () => {
      write('keys', SECRETS.secretAccessKey)
      write('wrong', 'wrong/secret+of/the/worker/refusals0000000')
      double = await startAgentcoreDouble({ ratePerSecond: 1000, secrets: SECRETS })
    })
    afterEach(async () => {
      double.fault()
      for (const one of opened.splice(0).toReversed()) await one[Symbol.asyncDispose]()
      expect(
        double.sessions.running().map(({ name }) => name),
        'left at the service',
      ).toEqual([])
    })
    afterAll(async () => {
      await double[Symbol.asyncDispose]()
      rmSync(folder, { recursive: true })
    })

    function write(file: string, secret: string): void {
      const keys = `aws_access_key_id = ${SECRETS.accessKeyId}\naws_secret_access_key = ${secret}\n`
      writeFileSync(join(folder, file), `[default]\n${keys}aws_session_token = ${TOKEN}\n`)
    }
    function backend(config: object = {}, deps: BackendDeps = {}): Backend {
      const made = createAgentcoreBackend(
        {
          region: 'eu-central-1',
          endpoint: double.origin,
          credentials_file: join(folder, 'keys'),
          interpreters: { 'internal-only': 'internal-0123456789' },
          calls_per_second: 1000,
          node: NODE,
          ...config,
        },
        { logger, ...deps },
      )
      opened.push(made)
      return made
    }
    async function open(by = backend()): Promise<Sandbox> {
      const sandbox = await by.open(jobSpec('aceaceaceace', RAN), AbortSignal.timeout(60_000))
      opened.push(sandbox)
      return sandbox
    }
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
    const invoke = (kind: Fault['kind'], more: Partial<Fault> = {}): Fault => ({
      operation: 'InvokeCodeInterpreter',
      kind,
      ...more,
    })

    /** All that a logger could write of it. */
    const seen = (values: unknown): string =>
      JSON.stringify(values, (_name, value: unknown) =>
        value instanceof Error
          ? [Object.entries(value), value.name, value.message, value.stack, value.cause]
          : value,
      )
    function expectNoKeys(values: unknown): void {
      const all = seen(values)
      for (const key of [SECRETS.accessKeyId, SECRETS.secretAccessKey, TOKEN]) expect(all).not.toContain(key)
    }

    it('repeat none of our keys in errors or logs, whatever the service says again', async () => {
      const message = `you sent ${SECRETS.accessKeyId} ${SECRETS.secretAccessKey} ${TOKEN}`
      double.fault(start({ error: 'AccessDeniedException', message }))
      const refused = await failureOf(open())
      expect(refused.message).toContain('you sent <redacted> <redacted> <redacted>')
      const sandbox = await open()
      double.fault(invoke('exception', { error: 'accessDeniedException', message, times: 9 }))
      const lost = await failureOf(printed(sandbox, RAN))
      expect(lost.message).toContain('you sent <redacted>')
      expectNoKeys([refused, lost, logged])
    })

    it('of a signature come with the security token, which is shown to nobody', async () => {
      const refused = await failureOf(open(backend({ credentials_file: join(folder, 'wrong') })))
      expect(seen(refused)).toContain('x-amz-security-token:<redacted>')
      expectNoKeys([refused, logged])
    })

    it('of an invalid request say what is wrong with it', async () => {
      double.fault(start({ error: 'ValidationException', reason: 'ResourceConflict', field: 'name' }))
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
      [
        'with an exit code',
        { content: [ready], structuredContent: { stdout: 'fine', exitCode: 1 } },
        'failed',
      ],
      ['with text alone', { content: [ready] }, 'marker'],
    ])('of ours: a session whose first call ends %s is not used', async (_how, result, detail) => {
      double.fault(invoke('result', { result, times: 2 }))
      expect(await failureOf(open())).toMatchObject({
        code: 'sandbox_open_failed',
        details: { reason: `readiness:${detail}` },
      })
    })

    it('of a stop for a conflict are asked about once more, and told when that is refused too', async () => {
      const stop: Fault = {
        operation: 'StopCodeInterpreterSession',
        kind: 'http',
        error: 'ConflictException',
      }
      const sandbox = await open()
      double.fault(stop)
      await sandbox[Symbol.asyncDispose]()
      expect(double.sessions.running()).toEqual([])
      const second = await open()
      double.fault({ ...stop, times: 2 })
      expect(await failureOf(Promise.resolve(second[Symbol.asyncDispose]()))).toMatchObject({
        name: 'ConflictException',
      })
      expect(double.sessions.running()).toHaveLength(1)
    })

    it('of every stop are no end of it: it is asked for again when its worker looks for leftovers', async () => {
      const stop: Fault = { operation: 'StopCodeInterpreterSession', kind: 'http', times: 3 }
      const by = backend()
      const sandbox = await open(by)
      double.fault(stop)
      await failureOf(Promise.resolve(sandbox[Symbol.asyncDispose]()))
      opened.splice(opened.indexOf(sandbox), 1)
      // Neither the answer to its start nor the list that it is looked for in comes through.
      double.fault(start({ kind: 'cut-after', times: 3 }), {
        operation: 'ListCodeInterpreterSessions',
        kind: 'cut-before',
        times: 3,
      })
      await failureOf(open(by))
      // Nor is the next one ready, nor can it be stopped; the second try of its open is.
      double.fault(invoke('empty'), stop)
      await open(by)
      expect(double.sessions.running()).toHaveLength(4)
      await by.owners()
      expect(double.sessions.running()).toHaveLength(1)
    })

    it('of a start that is carried out when nobody waits any more leave nothing for long', async () => {
      const by = backend({ api_timeout_ms: 1000 })
      double.fault(start({ kind: 'delay', ms: 3000 }))
      await failureOf(open(by))
      await expect.poll(() => double.sessions.running().length, AT_MOST).toBe(1)
      // One round of the janitor is enough; on a slow machine its calls may take more than their second.
      await expect.poll(() => by.owners().then(() => double.sessions.running(), String), AT_MOST).toEqual([])
    })

    it('of a start, and starts that are lost or not ready, leave the same attempt free to come again at once', async () => {
      let isFull = true
      const take = async (bucket: string): Promise<void> => {
        if (isFull && bucket.endsWith(':Start')) throw new CofferdamError('backend_unavailable')
      }
      const by = backend({}, { rate: { take } })
      const spec = jobSpec('aceaceaceace', RAN)
      let tries = 0
      function again(): Promise<Sandbox> {
        const sandboxId = `sbx_${String((tries += 1)).padStart(32, '0')}` as SandboxId
        return by.open({ ...spec, sandboxId }, AbortSignal.timeout(60_000))
      }
      await failureOf(again())
      isFull = false
      double.fault(invoke('empty', { times: 2 }))
      await failureOf(again())
      // This one is looked for from now on.
      double.fault(start({ kind: 'cut-before', times: 3 }))
      await failureOf(again())
      const sandbox = await again()
      opened.push(sandbox)
      await by.owners()
      expect(await printed(sandbox, RAN)).toBe('ran\n')
    })

    it('of the fleet’s own rate are no end of a program whose sandbox is open', async () => {
      const waits: number[] = []
      const gate: RateGate = {
        take: (bucket, _perSecond, { waitMs }) => {
          if (bucket.endsWith(':Invoke')) waits.push(waitMs)
          // As a bucket whose next turn is 20 s off.
          return waits.length > 1 && waitMs < 20_000 && bucket.endsWith(':Invoke')
            ? Promise.reject(new CofferdamError('backend_unavailable'))
            : Promise.resolve()
        },
      }
      const sandbox = await open(backend({}, { rate: gate }))
      expect(await printed(sandbox, RAN)).toBe('ran\n')
      expect(waits).toEqual([10_000, 60_000])
    })

    it('cost no connection: calls that are read to their end share one', async () => {
      const before = double.calls.length
      const sandbox = await open()
      await sandbox.write([{ path: 'a', bytes: Buffer.from('a') }])
      expect(await printed(sandbox, RAN)).toBe('ran\n')
      expect(await sandbox.read('a', 10)).toEqual(Buffer.from('a'))
      await sandbox[Symbol.asyncDispose]()
      const invoked = double.calls.slice(before).filter(({ tool }) => tool !== '')
      expect(invoked.length).toBeGreaterThan(3)
      // A connection that nobody used for seconds may be closed in between, on a machine that stood still.
      expect(new Set(invoked.map(({ port }) => port)).size).toBeLessThan(invoked.length)
    })

    it('of a session’s end leave no program in the background', async () => {
      const stop = new AbortController()
      const sandbox = await open(backend({ call_max_ms: 1000 }))
      const before = double.calls.length
      const running = sandbox.run(python('import time\ntime.sleep(600)'), {
        onOutput: () => undefined,
        maxOutputBytes: { stdout: 1000, stderr: 1000 },
        signal: stop.signal,
      })
      const tools = (): string[] => double.calls.slice(before).map(({ tool }) => tool)
      await expect.poll(tools, AT_MOST).toContain('getTask')
      // All three attempts of the SDK: the session lives on until somebody asks again.
      double.fault({
        operation: 'StopCodeInterpreterSession',
        kind: 'http',
        error: 'InternalServerException',
        times: 3,
      })
      stop.abort(new Error('the hard deadline'))
      await expect(running).rejects.toThrow('the hard deadline')
      await expect.poll(tools, AT_MOST).toContain('stopTask')
      // The one that is under way, which is refused, or the next one.
      await Promise.allSettled([sandbox[Symbol.asyncDispose]()])
    })
  },
)
