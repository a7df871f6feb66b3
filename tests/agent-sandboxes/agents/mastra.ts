/**
 * The tools of a Mastra workspace work in a session. With an ID as argument, another process continues in it.
 */
import { createMastraSandbox } from '@cofferdam/tools/mastra-sandbox'
import { createWorkspaceTools, Workspace } from '@mastra/core/workspace'
import { options, outcome, tell } from './connection.ts'

const [key] = process.argv.slice(2)
const sandbox = createMastraSandbox({ ...options, ...(key === undefined ? {} : { key }) })
const workspace = new Workspace({ sandbox })
await workspace.init()
const tools = await createWorkspaceTools(workspace)
const command = tools['mastra_workspace_execute_command']
const execute = (input: object, context: object = {}): Promise<unknown> =>
  outcome(command.execute({ timeout: null, cwd: null, tail: null, ...input }, { workspace, ...context }))

if (key !== undefined) {
  const { outcome: how } = await sandbox.start()
  const kept = await execute({ command: 'cat src/sum.py' })
  await workspace.destroy()
  await tell({ how, kept, status: sandbox.status, gone: await outcome(sandbox.executeCommand('ls')) })
} else {
  await sandbox.writeFiles([
    { path: 'src/sum.py', content: 'import sys\nprint(sum(map(int, sys.argv[1:])))\n' },
    { path: 'src/tool', content: new TextEncoder().encode('#!/bin/bash\necho "$GREETING"\n'), mode: 0o755 },
  ])
  sandbox.setEnv((env) => ({ ...env, GREETING: 'hello' }))
  const chunks: string[] = []
  const streamed = await sandbox.executeCommand('seq', ['1', '3'], { onStdout: (data) => chunks.push(data) })
  const { executionTimeMs, ...retained } = await sandbox.executeCommand(
    "printf '%s' 'äöü'; echo oops >&2",
    [],
    {
      maxRetainedBytes: 3,
    },
  )
  const info = await sandbox.getInfo()
  await tell({
    id: sandbox.id,
    tools: Object.keys(tools),
    results: [
      await execute({ command: 'python3 sum.py 1 2 3 | tee result.txt', cwd: 'src' }),
      await execute({ command: 'cat src/result.txt && src/tool' }),
      await execute({ command: 'python3 -c "import nothing_like_this"' }),
      await execute({ command: 'echo begun; sleep 60', timeout: 1 }),
      await execute({ command: 'cat absent.txt' }),
      await execute({ command: 'sleep 60' }, { abortSignal: AbortSignal.timeout(500) }),
    ],
    quoted: (await sandbox.executeCommand('printf', ['%s|', "it's", '$HOME', ''])).stdout,
    streamed: [streamed.success, chunks.join(''), typeof executionTimeMs],
    retained,
    timed: (({ exitCode, timedOut, killed }) => ({ exitCode, timedOut, killed }))(
      await sandbox.executeCommand('sleep 60', [], { timeout: 200 }),
    ),
    mode: await outcome(sandbox.writeFiles([{ path: 'never', content: '', mode: 0 }])),
    outside: await outcome(sandbox.writeFiles([{ path: '/etc/x', content: '' }])),
    info: [info.status, info.metadata?.['backend'], info.createdAt <= new Date()],
    instructions: workspace.getInstructions(),
  })
}
