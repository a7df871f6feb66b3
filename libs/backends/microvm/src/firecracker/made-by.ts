/**
 * Jails of templates have no lease, because they belong to no slot. A file for each such jail names the
 * worker that makes it, so that another worker can end the jail of a dead one.
 */
import { mkdir, readdir, readFile, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { identityOf, isRunning, thisPlace } from '@cofferdam/sandbox/backend'
import { z } from 'zod'
import { isJailId } from './jail.ts'

const makerSchema = z.strictObject({
  pid: z.int().min(1),
  start: z.int().min(0),
  place: z.string().min(1).max(64),
})

/** Says that this process makes the jail `id`. */
export async function claimJail(folder: string, id: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const me = identityOf(process.pid, await thisPlace())
  await writeFile(join(folder, id), JSON.stringify(me), { mode: 0o600 })
}

export const disclaimJail = (folder: string, id: string): Promise<void> =>
  unlink(join(folder, id)).catch(() => {})

/** Jails whose maker is gone. */
export async function abandonedJails(folder: string): Promise<string[]> {
  const place = await thisPlace()
  const found: string[] = []
  for (const id of (await readdir(folder).catch(() => [])).filter(isJailId)) {
    const text = await readFile(join(folder, id), 'utf8').catch(() => null)
    // A file that is being written has no content yet; its maker lives.
    if (text === null || text === '') continue
    const maker = makerSchema.safeParse(parsedJson(text)).data
    if (maker === undefined || !isRunning(maker, place)) found.push(id)
  }
  return found
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
