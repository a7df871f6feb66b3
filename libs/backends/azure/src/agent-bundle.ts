/** What is brought into a session of an interpreter pool: the guest agent and our programs beside it, as one file. */
import { readFileSync } from 'node:fs'
import { COMPILER, guestFiles } from '@cofferdam/sandbox/guest'

/** A program of ours that runs in the session. */
export const ours = (file: string): Buffer => readFileSync(new URL(file, import.meta.url))

/** All that goes into the session's folder, `more` too: paths and contents, for unpack-agent.py. */
export function agentBundle(transforms: boolean, more: Record<string, string>): Buffer {
  const files: [string, Buffer][] = guestFiles()
    // 5.0 of its 5.3 MB, which every new session would wait for.
    .filter(({ name }) => name !== COMPILER && (transforms || name !== 'node-gate/amaro.cjs'))
    .map(({ name, source }) => [`guest/${name}`, readFileSync(source)])
  const added = Object.entries(more).map(([path, text]): [string, Buffer] => [path, Buffer.from(text)])
  const all = [...files, ...added, ['in-session.py', ours('in-session.py')] as const]
  return Buffer.from(
    JSON.stringify(Object.fromEntries(all.map(([path, file]) => [path, file.toString('base64')]))),
  )
}
