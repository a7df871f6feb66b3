/**
 * A `SandboxAgent` of @openai/agents with its scripted model works in a session. With a state as argument,
 * another process continues in that session.
 */
import { createOpenAiAgentsSandboxClient } from '@cofferdam/tools/openai-agents-sandbox'
import { applyDiff, run, setTracingDisabled } from '@openai/agents'
import { file, Manifest, SandboxAgent } from '@openai/agents/sandbox'
import { assistantMessage, functionCall, ScriptedModel } from '@openai/agents/testing'
import { options, outcome, tell } from './connection.ts'

setTracingDisabled(true)
const sdk = { Manifest, applyDiff }
const sandboxes = createOpenAiAgentsSandboxClient({ ...options, sdk })

type Call = [string, Record<string, unknown>]

/** The model's call of a tool. `apply_patch` is one of the API's own tools, so it has a type of its own. */
const callOf = ([name, args]: Call, at: number) =>
  name === 'apply_patch'
    ? {
        type: 'apply_patch_call' as const,
        callId: `c${at}`,
        status: 'completed' as const,
        operation: args as { type: 'create_file'; path: string; diff: string },
      }
    : functionCall(name, args, { callId: `c${at}` })

/** What the agent's tools return for these calls. */
async function work(calls: Call[], sandbox: object): Promise<unknown[]> {
  const model = new ScriptedModel([
    ...calls.map((call, at) => [callOf(call, at)]),
    [assistantMessage('done')],
  ])
  const agent = new SandboxAgent({ name: 'coder', model })
  const { newItems, finalOutput } = await run(agent, 'Work.', { sandbox, maxTurns: 20 })
  const outputs = newItems.flatMap((item) => (item.type === 'tool_call_output_item' ? [item.output] : []))
  return [...outputs, finalOutput]
}

const [stored] = process.argv.slice(2)
if (stored !== undefined) {
  const state = await sandboxes.deserializeSessionState(JSON.parse(stored) as Record<string, unknown>)
  const calls: Call[] = [['exec_command', { cmd: 'cat src/answer.py; echo $GREETING' }]]
  const results = await work(calls, { client: sandboxes, sessionState: state })
  await tell({ results, gone: await outcome(sandboxes.resume(state)) })
} else {
  const manifest = new Manifest({
    entries: { 'data/numbers.txt': file({ content: '1\n2\n3\n' }) },
    environment: { GREETING: 'hello' },
  })
  const session = await sandboxes.create({ manifest })
  const create = (path: string, diff: string) => ({ type: 'create_file', path, diff })
  const change = '@@\n import sys\n-print(sum(map(int, sys.stdin)))\n+print(42)'
  const results = await work(
    [
      ['apply_patch', create('src/sum.py', '+import sys\n+print(sum(map(int, sys.stdin)))')],
      ['exec_command', { cmd: 'python3 src/sum.py < data/numbers.txt' }],
      ['apply_patch', { type: 'update_file', path: 'src/sum.py', diff: change, moveTo: 'src/answer.py' }],
      ['exec_command', { cmd: 'python3 answer.py; ls; exit 7', workdir: 'src' }],
      ['exec_command', { cmd: 'cat absent.txt', shell: '/bin/sh' }],
      ['exec_command', { cmd: 'seq 1 1000', max_output_tokens: 50 }],
      ['exec_command', { cmd: 'ls', tty: true }],
      ['apply_patch', create('/etc/outside', '+x')],
      ['apply_patch', { type: 'update_file', path: 'absent.py', diff: change }],
      ['apply_patch', { type: 'delete_file', path: 'data/numbers.txt' }],
      ['view_image', { path: 'absent.png' }],
      ['exec_command', { cmd: "printf '\\x89PNG\\r\\n\\x1a\\n' > dot.png" }],
      ['view_image', { path: 'dot.png' }],
      ['view_image', { path: 'src/answer.py' }],
    ],
    { session },
  )
  const sleeping = outcome(session.exec({ cmd: 'sleep 60' }))
  await expectRunning()
  await session.stop()
  await session.materializeEntry({
    path: 'more',
    entry: { type: 'dir', children: { 'run.sh': file({ content: 'exit 3', permissions: '-rwxr-xr-x' }) } },
  })
  await tell({
    results,
    stopped: await sleeping,
    more: [
      await session.listDir({ path: 'more' }),
      (await session.exec({ cmd: './run.sh', workdir: 'more' })).exitCode,
      new TextDecoder().decode(await session.readFile({ path: 'src/answer.py', maxBytes: 6 })),
      await session.pathExists('none'),
      await session.directoryExists('more'),
      await outcome(session.readFile({ path: 'none' })),
      await outcome(session.exec({ cmd: 'ls', runAs: 'root' })),
      await outcome(session.materializeEntry({ path: 'x', entry: { type: 'git_repo' } })),
    ],
    owned: await ownedSessions(),
    users: await outcome(sandboxes.create({ manifest: { users: ['root'] } })),
    state: await sandboxes.serializeSessionState(session.state),
  })

  /**
   * Runs that make their sandbox themselves: two without a key, and two with a key, of which the second finds
   * the files of the first.
   */
  async function ownedSessions(): Promise<unknown[]> {
    const kept = createOpenAiAgentsSandboxClient({ ...options, sdk, key: 'conversation-1' })
    const list: Call[] = [['exec_command', { cmd: 'ls; touch note' }]]
    const runs = []
    for (const client of [sandboxes, sandboxes, kept, kept]) runs.push((await work(list, { client }))[0])
    const left = await Array.fromAsync(options.client.sessions.list({ tenant_id: options.tenantId }))
    await kept.delete({ ...session.state, key: 'conversation-1' })
    return [...runs, left.map(({ key }) => (key === session.state.key ? 'this' : key)).toSorted()]
  }

  /** Waits until the fleet runs the command. */
  async function expectRunning(): Promise<void> {
    const name = { backend: session.state.backend, key: session.state.key, tenant_id: options.tenantId }
    while ((await options.client.sessions.get(name)).state !== 'running')
      await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
