/**
 * Managed Agents sessions whose tool calls run in this fleet: the double of the control plane, the real SDK
 * in real dispatchers, a real worker and real sandboxes.
 */
import { globSync, readFileSync } from 'node:fs'
import type { RunningApi } from '@cofferdam/api'
import { SURROUNDINGS } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, beforeEach, describe, expect, vi } from 'vitest'
import {
  startManagedAgents,
  type ManagedAgentsDouble,
} from '../../infra/doubles/managed-agents/managed-agents-double.ts'
import type { ToolCall } from '../../infra/doubles/managed-agents/tool-calls.ts'
import { runDispatcher, startDispatcher } from '../dispatcher.ts'
import { startFleet, type Fleet } from '../fleet.ts'

type Session = ReturnType<ManagedAgentsDouble['createSession']>

const onProcess = needs('process-namespaces', 'cgroups')
/** A dispatcher that is killed or loses its item is noticed after this time. */
const SHORT_LEASE = { ttl_seconds: 2, reclaim_ms: 1000 }
let fleet: Fleet
let api: RunningApi
let key = ''
let double: ManagedAgentsDouble

beforeAll(async () => {
  fleet = await startFleet()
  await fleet.createTenant('acme', {
    policy: { min_isolation: 'none' },
    caps: { tenant_daily: 10_000, agent_hourly: 10_000, concurrency: 64 },
  })
  key = (await fleet.store.keys.create({ tenant_id: 'acme' }, 'test')).key
  await fleet.runWorker({ COFFERDAM_BACKENDS: 'process', COFFERDAM_SLOTS: '4' })
  api = await fleet.runApi()
})
beforeEach(async () => {
  double = await startManagedAgents()
  return () => double.close()
})
afterAll(() => fleet?.[Symbol.asyncDispose]())

const bash = (command: string) => ({ tool_use: { name: 'bash', input: { command } } })
const file = (name: 'read' | 'write' | 'edit', input: Record<string, unknown>) => ({
  tool_use: { name, input },
})
const calls = (session: Session): ToolCall[] => [...session.results.values()]
const textOf = (call: ToolCall | undefined): string =>
  (call?.result?.content ?? []).map((block) => (block.type === 'text' ? block.text : '')).join('')
const storeOf = ({ profile }: Session): string =>
  profile.resources.flatMap((one) => (one.type === 'memory_store' ? [one.memory_store_id] : []))[0] ?? ''
const texts = (session: Session): string[] => calls(session).map(textOf)
const timesAnswered = (session: Session): number[] => calls(session).map(({ answers }) => answers)

async function get(path: string): Promise<unknown> {
  const response = await fetch(`${api.url}/v1${path}`, { headers: { authorization: `Bearer ${key}` } })
  return (response.headers.get('content-type') ?? '').includes('json') ? response.json() : response.text()
}
/** The audit rows of a session's tool calls, oldest first. */
const rowsOf = async (session: Session) =>
  (await fleet.store.listAudit({ tenantId: 'acme', limit: 500 })).rows
    .filter((row) => row.run_id === session.id)
    .toReversed()

const PATIENT = { timeout: 60_000, interval: 50 }
/** Keys of the sessions that have a sandbox now. */
const sessionKeys = async (): Promise<string[]> =>
  ((await get('/sessions')) as { sessions: { key: string }[] }).sessions.map(({ key }) => key)
/** Resolves when a call of the session runs in a sandbox. */
const untilRunning = async (session: Session): Promise<void> =>
  vi.waitFor(async () => {
    const path = `/executions?agent_id=${session.profile.agentId}`
    const { executions } = (await get(path)) as { executions: { status: string }[] }
    expect(executions.map(({ status }) => status)).toContain('running')
  }, PATIENT)

/** Command lines of all processes of this host. Processes in `process` sandboxes are among them. */
const commandsOfHost = (): string[] =>
  globSync('/proc/[0-9]*/cmdline').flatMap((path) => {
    try {
      return readFileSync(path, 'utf8')
    } catch {
      return []
    }
  })

describe('the calls of a session', () => {
  onProcess.it('run in one sandbox, whose shell and background jobs live on between calls', async () => {
    const session = double.createSession({
      script: [
        bash('cd /tmp && export COLOUR=green && (sleep 300 & echo $! > /tmp/job)'),
        bash('echo "$PWD $COLOUR"; kill -0 $(cat /tmp/job) && echo alive'),
        file('write', { file_path: 'notes/a.txt', content: 'one\ntwo\n' }),
        file('edit', { file_path: 'notes/a.txt', old_string: 'two', new_string: '2' }),
        file('read', { file_path: 'notes/a.txt' }),
        { tool_use: { name: 'glob', input: { pattern: '**/*.txt' } } },
        { tool_use: { name: 'grep', input: { pattern: 'one', path: 'notes' } } },
        bash('false'),
        bash('exit 3'),
        bash('echo "${COLOUR:-gone}"'),
        { idle: 'end_turn' },
      ],
    })
    const dispatcher = await startDispatcher(fleet, double)
    await session.untilAnswered(10)
    expect(texts(session)).toEqual([
      '(no output)',
      '/tmp green\nalive',
      'wrote 8 bytes to notes/a.txt',
      'edited notes/a.txt (1 replacement(s))',
      'one\n2\n',
      `${SURROUNDINGS.workFolder}/notes/a.txt`,
      `${SURROUNDINGS.workFolder}/notes/a.txt:1:one`,
      'exit 1',
      'bash: bash session terminated',
      'gone',
    ])
    expect(calls(session).map(({ result }) => result?.isError)).toEqual([
      ...Array<boolean>(7).fill(false),
      true,
      true,
      false,
    ])
    expect(timesAnswered(session)).toEqual(Array(10).fill(1))
    expect(await dispatcher.stop()).toBe(0)
    const rows = await rowsOf(session)
    expect(rows.map(({ tool_call_id }) => tool_call_id).filter((id) => id !== null)).toEqual(
      calls(session).map(({ id }) => id),
    )
    expect(new Set(rows.map(({ session_id }) => session_id)).size).toBe(1)
    expect(
      new Set(rows.filter(({ tool_call_id }) => tool_call_id !== null).map(({ agent_id }) => agent_id)),
    ).toEqual(new Set([session.profile.agentId]))
  })

  onProcess.it(
    'wait for a confirmation, are left to others by name, and are never run if denied',
    async () => {
      const session = double.createSession({
        script: [
          { tool_use: { name: 'bash', input: { command: 'echo asked' }, evaluated_permission: 'ask' } },
          {
            tool_use: { name: 'bash', input: { command: 'touch /tmp/denied' }, evaluated_permission: 'ask' },
          },
          bash('ls /tmp/denied'),
          { tool_use: { name: 'crm_lookup', input: {}, custom: true } },
        ],
      })
      const dispatcher = await runDispatcher(fleet, double)
      const [first] = await session.untilAsked()
      session.confirm(first?.id ?? '', 'allow')
      await session.untilAnswered([first?.id ?? ''])
      const [second] = await session.untilAsked()
      session.confirm(second?.id ?? '', 'deny')
      await session.until('the call of another client', () => calls(session).length === 4)
      expect(texts(session)[0]).toBe('asked')
      expect(textOf(calls(session)[2])).toContain('No such file')
      await dispatcher.close()
      expect(calls(session)[3]?.answers).toBe(0)
    },
  )

  onProcess.it('are told when a cap is used up and when to come back', async () => {
    await fleet.createTenant('small', {
      policy: { min_isolation: 'none' },
      caps: { tenant_daily: 2, agent_hourly: 100, concurrency: 4 },
    })
    const session = double.createSession({ script: [bash('echo 1'), bash('echo 2'), bash('echo 3')] })
    const dispatcher = await runDispatcher(fleet, double, { environment: { tenant_id: 'small' } })
    await session.untilAnswered(3)
    // Preparing the sandbox counts as one execution, so the cap of 2 leaves one for the calls.
    expect(texts(session)[0]).toBe('1')
    expect(calls(session)[1]?.result?.isError).toBe(true)
    expect(texts(session)[1]).toMatch(/20\d\d-\d\d-\d\dT/)
    await dispatcher.close()
  })

  onProcess.it('hold the end of a long output, and a wrong input is an answer', async () => {
    const session = double.createSession({
      script: [
        bash('yes 0123456789abcde | head -c 1048576; echo the end'),
        file('read', { file_path: 7 }),
        { tool_use: { name: 'glob', input: { pattern: '../*' } } },
      ],
    })
    const dispatcher = await runDispatcher(fleet, double)
    await session.untilAnswered(3)
    expect(texts(session)[0]).toMatch(/^\[output truncated\][^]*the end$/)
    expect(texts(session)[0]?.length).toBeLessThan(101 * 1024)
    expect(calls(session).map(({ result }) => result?.isError)).toEqual([false, true, true])
    await dispatcher.close()
  })
})

describe('outputs, skills and memories', () => {
  onProcess.it('of a session outlive its sandbox, and its skills and memories are in it', async () => {
    const session = double.createSession({
      skills: [{ name: 'invoices', files: { 'SKILL.md': 'Add the sums.\n', 'run.sh': 'echo ran\n' } }],
      memoryStores: [
        { name: 'team', memories: { '/notes.md': 'Use euros.\n' }, mountPath: '/mnt/memory/team' },
      ],
      script: [
        bash('cat skills/invoices/SKILL.md /mnt/memory/team/notes.md'),
        bash(
          'echo 42 > /mnt/session/outputs/sum.txt; mkdir /mnt/session/outputs/x; echo b > /mnt/session/outputs/x/b',
        ),
        bash('echo "Sums are 42." > /mnt/memory/team/sums.md; rm /mnt/memory/team/notes.md'),
        file('read', { file_path: '/mnt/memory/team/sums.md' }),
        { idle: 'end_turn' },
      ],
    })
    const dispatcher = await startDispatcher(fleet, double)
    await session.untilAnswered(4)
    expect(texts(session)[0]).toBe('Add the sums.\nUse euros.')
    expect(texts(session)[3]).toBe('Sums are 42.\n')
    await session.untilIdle()
    expect(await dispatcher.stop()).toBe(0)
    const store = double.memoryStore(storeOf(session))
    const memories = store.list({ depth: 9, view: 'basic' })
    expect(memories.map(({ path }) => path)).toEqual(['/sums.md'])
    const { outputs } = (await get(`/sessions/${session.id}/outputs`)) as { outputs: { path: string }[] }
    expect(outputs.map(({ path }) => path)).toEqual(['sum.txt', 'x/b'])
    expect(await get(`/sessions/${session.id}/outputs/sum.txt`)).toBe('42\n')
  })
})

describe('nothing runs twice, and nothing is left', () => {
  /** Appends to a file, and takes long enough to be interrupted. */
  const SLOW = 'echo once >> /tmp/log; sleep 3; cat /tmp/log'

  onProcess.it('when a dispatcher is killed in a call, the next one answers with the same run', async () => {
    double.configure(SHORT_LEASE)
    const session = double.createSession({ script: [bash(SLOW), bash('cat /tmp/log')] })
    const first = await startDispatcher(fleet, double)
    await untilRunning(session)
    await first.kill()
    const second = await startDispatcher(fleet, double)
    await session.untilAnswered(2)
    expect(texts(session)).toEqual(['once', 'once'])
    expect(timesAnswered(session)).toEqual([1, 1])
    await second.stop()
  })

  onProcess.it('when an item lapses and another dispatcher gets it, only that one answers', async () => {
    double.configure(SHORT_LEASE)
    const session = double.createSession({
      script: [bash(SLOW), bash('cat /tmp/log'), { idle: 'end_turn' }],
    })
    const first = await runDispatcher(fleet, double, { environment: { max_sessions: 1 } })
    await untilRunning(session)
    const second = await runDispatcher(fleet, double)
    double.items[0]?.expire()
    await session.untilAnswered(2)
    expect(texts(session)).toEqual(['once', 'once'])
    expect(timesAnswered(session)).toEqual([1, 1])
    await Promise.all([first.close(), second.close()])
  })

  onProcess.it('when a session has two items, each of its calls is answered once', async () => {
    const session = double.createSession({
      script: [bash(SLOW), bash('cat /tmp/log'), bash('wc -l < /tmp/log'), { idle: 'end_turn' }],
    })
    const dispatcher = await runDispatcher(fleet, double)
    await untilRunning(session)
    double.enqueue(session)
    await session.untilAnswered(3)
    expect(texts(session)).toEqual(['once', 'once', '1'])
    expect(timesAnswered(session)).toEqual([1, 1, 1])
    await dispatcher.close()
  })

  onProcess.inLongTier(
    'when its worker is killed in a call, the call says so, and the next one has a new sandbox',
    { timeout: 180_000 },
    async () => {
      await using own = await startFleet()
      await own.createTenant('acme', { policy: { min_isolation: 'none' } })
      const doomed = await own.startWorker({ COFFERDAM_BACKENDS: 'process' })
      const session = double.createSession({
        script: [bash('touch a; sleep 60.0417'), bash('ls a; echo new')],
      })
      const dispatcher = await startDispatcher(own, double)
      await vi.waitFor(() => expect(commandsOfHost()).toContain('sleep\0' + '60.0417\0'), PATIENT)
      await doomed.kill()
      await own.startWorker({ COFFERDAM_BACKENDS: 'process' })
      await vi.waitFor(() => expect(timesAnswered(session)).toEqual([1, 1]), {
        timeout: 120_000,
        interval: 100,
      })
      expect(texts(session)[0]).toMatch(/stopped during the call/)
      expect(texts(session)[1]).toMatch(/new sandbox[^]*No such file[^]*new$/)
      await dispatcher.stop()
    },
  )

  onProcess.it(
    'when the dispatcher is stopped, a turn goes on to its end, and its sandbox waits',
    async () => {
      const session = double.createSession({
        script: [bash('sleep 1; echo a'), bash('echo b'), { idle: 'end_turn' }, bash('cat /tmp/kept')],
      })
      const dispatcher = await startDispatcher(fleet, double)
      await untilRunning(session)
      expect(await dispatcher.stop()).toBe(0)
      expect(texts(session)).toEqual(['a', 'b'])
      expect(double.items.map(({ state }) => state)).toEqual(['stopped'])
    },
  )

  onProcess.it(
    'when the time of a stopped dispatcher is up, the next one answers with the same run',
    async () => {
      double.configure(SHORT_LEASE)
      const session = double.createSession({ script: [bash(SLOW), bash('cat /tmp/log')] })
      const first = await startDispatcher(fleet, double, { env: { COFFERDAM_DRAIN_MS: '100' } })
      await untilRunning(session)
      expect(await first.stop()).toBe(0)
      expect(timesAnswered(session)).toEqual([0])
      expect(double.items.map(({ state }) => state)).not.toContain('stopped')
      const second = await startDispatcher(fleet, double)
      await session.untilAnswered(2)
      expect(texts(session)).toEqual(['once', 'once'])
      expect(timesAnswered(session)).toEqual([1, 1])
      await second.stop()
    },
  )

  onProcess.it('when a session ends in a call, its sandbox is destroyed after the call', async () => {
    const session = double.createSession({ script: [bash('sleep 3')] })
    const dispatcher = await runDispatcher(fleet, double)
    await untilRunning(session)
    session.terminate()
    await vi.waitFor(async () => expect(await sessionKeys()).not.toContain(session.id), PATIENT)
    await dispatcher.close()
  })

  onProcess.it('when ops stop an item, its call is cancelled and gets no answer', async () => {
    double.configure(SHORT_LEASE)
    const session = double.createSession({ script: [bash('sleep 100')] })
    const dispatcher = await runDispatcher(fleet, double)
    await untilRunning(session)
    double.items[0]?.stop(false)
    await vi.waitFor(() => expect(double.items[0]?.state).toBe('stopped'), PATIENT)
    expect((await rowsOf(session)).map(({ ending }) => ending)).toContain('cancelled')
    expect(timesAnswered(session)).toEqual([0])
    await dispatcher.close()
  })

  onProcess.it('when a shell is only restored, it continues all the same', async () => {
    const session = double.createSession({
      script: [bash('mkdir a; cd a; x=kept; export Y=1'), bash('echo "$PWD $x $Y"'), { idle: 'end_turn' }],
    })
    const dispatcher = await runDispatcher(fleet, double, { environment: { shell: 'restored' } })
    await session.untilAnswered(2)
    expect(texts(session)).toEqual(['(no output)', `${SURROUNDINGS.workFolder}/a kept 1`])
    await dispatcher.close()
  })

  onProcess.it('when results cannot be posted for a while and streams are cut', async () => {
    const session = double.createSession({
      script: [bash('echo x >> /tmp/log'), bash('cat /tmp/log'), { idle: 'end_turn' }],
    })
    double.inject({ kind: 'status', route: 'events.send', status: 529, times: 4 })
    double.inject({ kind: 'cut', after_events: 2, times: 2 })
    double.inject({ kind: 'replay', nth: 2 })
    const dispatcher = await runDispatcher(fleet, double)
    await session.untilAnswered(2)
    expect(texts(session)).toEqual(['(no output)', 'x'])
    await dispatcher.close()
  })

  onProcess.it('when an item only asks whether somebody is there', async () => {
    double.enqueue('healthcheck')
    const dispatcher = await runDispatcher(fleet, double)
    await vi.waitFor(() => expect(double.items.map(({ state }) => state)).toEqual(['stopped']), PATIENT)
    await dispatcher.close()
  })
})

describe('no credential', () => {
  onProcess.it('of the control plane is in a sandbox, a row, a span or the dispatcher’s log', async () => {
    const session = double.createSession({
      script: [
        bash('env; set; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr "\\0" "\\n"'),
        bash('grep -rsl "sk-ant-" /tmp /mnt /etc /home /root /opt /dev/shm'),
        { idle: 'end_turn' },
      ],
    })
    const dispatcher = await startDispatcher(fleet, double, { env: { COFFERDAM_LOG_LEVEL: 'trace' } })
    await session.untilAnswered(2)
    await session.untilIdle()
    await dispatcher.stop()
    const rows = JSON.stringify(await rowsOf(session))
    for (const text of [...texts(session), rows, dispatcher.log()]) {
      expect(text).not.toContain(double.environmentKey)
      expect(text).not.toMatch(/sk-ant-(oat|req)/)
    }
    expect(texts(session)[0]).toContain('HOME=')
    // Only polling and acknowledging use the environment key. All requests for a session, also to stop its
    // item, use the item's secret.
    const byKey = double.requests.filter(({ credential }) => credential === 'environment_key')
    expect([...new Set(byKey.map(({ route }) => route))].toSorted()).toEqual(['work.ack', 'work.poll'])
  })
})
