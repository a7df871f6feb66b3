/** For tests: serves items of the double with the worker of Anthropic's SDK. */
import { tmpdir } from 'node:os'
import type { BetaRunnableTool } from '@anthropic-ai/sdk/lib/tools/BetaRunnableTool'
import type { ManagedAgentsDouble } from './managed-agents-double.ts'
import type { Step } from './scripted-agent.ts'
import { claim, clientOf, handOver, tool, type ClientOptions } from './sdk-judge.ts'

/** The SDK's worker leaves a session that is idle for this long. */
export const MAX_IDLE_MS = 50

export const echo = tool('echo', ({ text }) => `echo ${String(text)}`)
export const useEcho = (text: string): Step => ({ tool_use: { name: 'echo', input: { text } } })

/** A tool that runs until it is aborted, and a promise for its start. */
export function waitingTool() {
  const { promise: started, resolve } = Promise.withResolvers<undefined>()
  const wait = tool('wait', async (_, signal) => {
    resolve(undefined)
    await new Promise((done) => signal.addEventListener('abort', done, { once: true }))
    return 'too late'
  })
  return { wait, started }
}

/** Claims the next item, and serves it with these tools until its session is idle. */
export async function serve(
  double: ManagedAgentsDouble,
  tools: BetaRunnableTool[],
  { signal, ...options }: ClientOptions & { signal?: AbortSignal } = {},
): Promise<void> {
  const work = await claim(double)
  await clientOf(double, options)
    .beta.environments.work.worker({ workdir: tmpdir(), maxIdleMs: MAX_IDLE_MS, tools })
    .handleItem({ ...handOver(work), ...(signal === undefined ? {} : { signal }) })
}

/** Runs the SDK's daemon while `during` runs. Without `tools` it has its own, which work in `workdir`. */
export async function whileRunning(
  double: ManagedAgentsDouble,
  during: () => Promise<void>,
  { tools, workdir = tmpdir() }: { tools?: BetaRunnableTool[]; workdir?: string } = {},
): Promise<void> {
  const stop = new AbortController()
  const { environmentId, environmentKey } = double
  const own = tools === undefined ? {} : { tools }
  const running = clientOf(double)
    .beta.environments.work.worker({ environmentId, environmentKey, workdir, maxIdleMs: MAX_IDLE_MS, ...own })
    .run(stop.signal)
  const ended = running.catch((error: unknown) => {
    if (!stop.signal.aborted) throw error
  })
  try {
    await Promise.race([during(), ended.then(() => Promise.reject(new Error('the worker ended')))])
  } finally {
    stop.abort()
    await ended
  }
}
