/**
 * The example runtime of Agent Sandbox (examples/python-runtime-sandbox). It takes files by POST /upload and
 * commands by POST /execute, and answers when a command ends. So our agent is uploaded and left listening in
 * the background, as in our own image.
 */
import { boundedBody, multipart } from '@cofferdam/backend-remote'
import { CofferdamError } from '@cofferdam/contract'
import { guestBundle, unpackArgv } from '@cofferdam/sandbox/guest'
import { z } from 'zod'
import { hostOf, type ForeignPod } from './sandboxd.ts'

const PORT = 8888
const BUNDLE = 'cofferdam-agent.json'
/** The largest answer, which holds what a command printed. */
const ANSWER_MAX = 1024 * 1024

const answerSchema = z.object({ stdout: z.string(), stderr: z.string(), exit_code: z.int() })

export interface PythonRuntimeSettings {
  /** Where the runtime keeps files (`SANDBOX_BASE_DIR`). */
  root: string
  /** The folder for the agent. Programs can write it. */
  folder: string
  python: string
}

/** Uploads the agent and starts pod.py with `args`. The agent then listens, or will soon. */
export async function startByPythonRuntime(
  pod: ForeignPod,
  args: readonly string[],
  { root, folder, python }: PythonRuntimeSettings,
  signal: AbortSignal,
): Promise<void> {
  const origin = `http://${hostOf(pod.ip)}:${PORT}`
  const { body, type } = multipart([{ path: BUNDLE, bytes: guestBundle() }])
  await posted(`${origin}/upload`, { headers: { 'content-type': type }, body }, signal)
  const command = unpackArgv(python, { bundle: `${root}/${BUNDLE}`, folder, host: pod.name }, 'listen', args)
  const said = await posted(
    `${origin}/execute`,
    {
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ command: command.map(quoted).join(' ') }),
    },
    signal,
  )
  const answer = answerSchema.safeParse(JSON.parse(said))
  if (!answer.success)
    throw new CofferdamError('protocol_violation', 'kubernetes: the pod answers a command in no known form.')
  if (answer.data.exit_code !== 0)
    throw new CofferdamError('sandbox_open_failed', 'kubernetes: the agent could not be put into the pod.', {
      details: { said: answer.data.stderr.slice(-300) },
    })
}

/** Quotes a word as Python's shlex reads it. */
const quoted = (text: string): string => `'${text.replaceAll("'", `'"'"'`)}'`

async function posted(
  url: string,
  request: { headers: Record<string, string>; body: string | Uint8Array<ArrayBuffer> },
  signal: AbortSignal,
): Promise<string> {
  const response = await fetch(url, { method: 'POST', redirect: 'error', signal, ...request })
  const said = (await boundedBody('kubernetes', response.body, ANSWER_MAX)).toString('utf8')
  if (response.ok) return said
  throw new CofferdamError(
    'sandbox_open_failed',
    `kubernetes: the pod answered ${new URL(url).pathname} with ${response.status}.`,
    { details: { said: said.slice(0, 300) } },
  )
}
