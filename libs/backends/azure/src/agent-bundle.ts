/** Bundles the guest agent and our programs into one file for a session of an interpreter pool. */
import { readFileSync } from 'node:fs'
import { COMPILER, guestFiles } from '@cofferdam/sandbox/guest'

/** Reads one of our programs that run in the session. */
export const ours = (file: string): Buffer => readFileSync(new URL(file, import.meta.url))

/** Returns the bundle for unpack-agent.py: paths and base64 contents, with `more` added. */
export function agentBundle(transforms: boolean, more: Record<string, string>): Buffer {
  const files: [string, Buffer][] = guestFiles()
    // Leaves out 5.0 of 5.3 MB, which every new session would upload.
    .filter(({ name }) => name !== COMPILER && (transforms || name !== 'node-gate/amaro.cjs'))
    .map(({ name, source }) => [`guest/${name}`, readFileSync(source)])
  const added = Object.entries(more).map(([path, text]): [string, Buffer] => [path, Buffer.from(text)])
  const all = [...files, ...added, ['in-session.py', ours('in-session.py')] as const]
  return Buffer.from(
    JSON.stringify(Object.fromEntries(all.map(([path, file]) => [path, file.toString('base64')]))),
  )
}
