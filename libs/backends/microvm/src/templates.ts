/**
 * Templates: one per size of a machine, on disk, shared by the workers of one user. The key names everything
 * that a snapshot depends on. Files are checked by their digest when a worker takes them, and by size, time
 * and inode before every clone.
 */
import { createHash, randomBytes } from 'node:crypto'
import { statSync } from 'node:fs'
import { mkdir, open, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { CofferdamError } from '@cofferdam/contract'
import type { BackendLogger } from '@cofferdam/sandbox/backend'
import type { SlotLimits } from '@cofferdam/sandbox/warm'
import { z } from 'zod'
import { createControlChannel } from './control-channel.ts'
import { CONTROL_PORT, type MachineSpec, type MachineTemplate, type MicrovmEngine } from './engine.ts'
import type { MicrovmImage } from './image.ts'
import { openFailure } from './open-failure.ts'
import { AGENT_MIB } from './thaw.ts'

/** Kernel, first process and what they keep in memory; the rest of the template's memory is cache. */
const GUEST_MIB = 144
const SMALLEST_MIB = 512
/** An emulated kernel boots in 4 s alone, and in a minute on a busy host. */
const BOOT_MS = 300_000
const DAY_MS = 24 * 3_600_000
/**
 * A template that no worker has used for this long is removed. Until then, workers with an older image may
 * still use it.
 */
const UNUSED_MS = 7 * DAY_MS
/** A worker that uses a template records that this often. */
const RECORD_MS = DAY_MS
const ABANDONED_MS = 600_000
export const CHANGED =
  'The files of a template were changed under this worker. It is checked again before the next use.'
const BUILDING = 'new-'
const BLOCK_BYTES = 1 << 20
/** Version of a template's folder. It is part of the key, so that two releases never make the same folder. */
const FORMAT = 2

const recordSchema = z.strictObject({ sha256: z.strictObject({ state: z.string(), memory: z.string() }) })

export interface Templates {
  /** Makes the template of this size if there is none. Rejects with `sandbox_open_failed`. */
  get(limits: SlotLimits): Promise<MachineTemplate>
  /**
   * False if somebody changed its files. A clone reads most of its memory from them only when it needs it. So
   * the pool asks again for clones that wait.
   */
  isUnchanged(template: MachineTemplate): boolean
}

/** A machine has one of few sizes, since each needs a template. The guest's cgroup has the exact limits. */
export function machineSize({ memory_mib, cpus }: SlotLimits): Pick<MachineSpec, 'memoryMib' | 'vcpus'> {
  const needed = memory_mib + AGENT_MIB + GUEST_MIB
  return {
    memoryMib: Math.max(SMALLEST_MIB, 2 ** Math.ceil(Math.log2(needed))),
    vcpus: 2 ** Math.ceil(Math.log2(Math.max(1, cpus))),
  }
}

interface Kept {
  template: MachineTemplate
  seen: string
  /** When this worker last recorded that it uses the template, by setting the time of `template.json`. */
  recordedMs: number
}

export function createTemplates(parts: {
  engine: MicrovmEngine
  image: () => Promise<MicrovmImage>
  folder: () => Promise<string>
  logger: BackendLogger
  /** Milliseconds since the epoch. Tests pass their own. */
  now?: () => number
}): Templates {
  const { engine, logger, now = Date.now } = parts
  const making = new Map<string, Promise<Kept>>()
  const looks = new WeakMap<MachineTemplate, string>()

  async function make(size: Pick<MachineSpec, 'memoryMib' | 'vcpus'>): Promise<Kept> {
    const { kernel, initramfs, root, manifest } = await parts.image()
    const spec: MachineSpec = { kernel, initramfs, root, ...size }
    const key = createHash('sha256')
      .update(JSON.stringify([FORMAT, Object.values(manifest.sha256), await engine.templateKey(), size]))
      .digest('hex')
      .slice(0, 24)
    const top = await parts.folder()
    await removeUnused(top, now())
    const there = join(top, key)
    const found = await load(there, spec, now())
    if (found !== null) return found
    const began = performance.now()
    const fresh = join(top, `${BUILDING}${key}-${randomBytes(4).toString('hex')}`)
    await mkdir(fresh, { mode: 0o700 })
    try {
      const made = await engine.createTemplate(spec, fresh, sayHello, AbortSignal.timeout(BOOT_MS))
      const sha256 = { state: await digestOf(made.state), memory: await digestOf(made.memory) }
      await writeFile(join(fresh, 'template.json'), JSON.stringify({ sha256 }))
      await rm(there, { recursive: true, force: true })
      // Another worker may be faster with the same template.
      await rename(fresh, there).catch(() => {})
    } finally {
      await rm(fresh, { recursive: true, force: true })
    }
    const kept = await load(there, spec, now())
    if (kept === null) throw new CofferdamError('sandbox_open_failed', 'A new template cannot be read.')
    logger.info({ key, ...size, ms: Math.round(performance.now() - began) }, 'made a template of machines')
    return kept
  }

  return {
    async get(limits) {
      const size = machineSize(limits)
      const name = `${size.memoryMib}/${size.vcpus}`
      let kept = making.get(name)
      if (kept === undefined) {
        kept = make(size).catch((error: unknown) => {
          throw openFailure('A template of virtual machines could not be made', error)
        })
        making.set(name, kept)
        kept.catch(() => making.delete(name))
      }
      const found = await kept
      const { template } = found
      looks.set(template, found.seen)
      if (this.isUnchanged(template)) {
        if (now() - found.recordedMs > RECORD_MS) await recordUse(found, now())
        return template
      }
      making.delete(name)
      throw new CofferdamError('sandbox_open_failed', CHANGED)
    },
    isUnchanged: (template) => looks.get(template) === lookAt(template),
  }
}

/**
 * Null if there is no template, or if its files are not those that were saved. The caller then makes a new
 * one.
 */
async function load(folder: string, spec: MachineSpec, nowMs: number): Promise<Kept | null> {
  const template = { spec, state: join(folder, 'state'), memory: join(folder, 'memory') }
  const text = await readFile(join(folder, 'template.json'), 'utf8').catch(() => null)
  if (text === null) return null
  const record = recordSchema.safeParse(parsedJson(text)).data
  const seen = lookAt(template)
  if (record === undefined || seen === null) return null
  // This also brings the files into memory, without which the first clones wait for the disk.
  if ((await digestOf(template.memory)) !== record.sha256.memory) return null
  if ((await digestOf(template.state)) !== record.sha256.state) return null
  const kept: Kept = { template, seen, recordedMs: 0 }
  await recordUse(kept, nowMs)
  return kept
}

async function recordUse(kept: Kept, nowMs: number): Promise<void> {
  kept.recordedMs = nowMs
  const record = join(dirname(kept.template.state), 'template.json')
  await utimes(record, nowMs / 1000, nowMs / 1000).catch(() => {})
}

/** Synchronous, because a pool calls it for each slot that it hands out. It takes 20 us. */
function lookAt({ state, memory }: MachineTemplate): string | null {
  try {
    const found = [state, memory].map((path) => statSync(path, { bigint: true }))
    return found.map(({ ino, size, mtimeNs }) => `${ino} ${size} ${mtimeNs}`).join(' ')
  } catch {
    return null
  }
}

const sayHello: Parameters<MicrovmEngine['createTemplate']>[2] = async (connect) => {
  const control = createControlChannel(await connect(CONTROL_PORT))
  await control.hello(AbortSignal.timeout(BOOT_MS))
}

async function removeUnused(top: string, nowMs: number): Promise<void> {
  for (const name of await readdir(top)) {
    const folder = join(top, name)
    const isNew = name.startsWith(BUILDING)
    const found = await stat(isNew ? folder : join(folder, 'template.json')).catch(() => null)
    if (found !== null && nowMs - found.mtimeMs > (isNew ? ABANDONED_MS : UNUSED_MS))
      await rm(folder, { recursive: true, force: true })
  }
}

/**
 * The digest of the file's size and of every block that is not empty. Most of a machine's memory is empty.
 */
async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256')
  const block = Buffer.alloc(BLOCK_BYTES)
  const empty = Buffer.alloc(BLOCK_BYTES)
  await using file = await open(path)
  let at = 0
  for (;;) {
    const { bytesRead } = await file.read(block, 0, BLOCK_BYTES, at)
    if (bytesRead === 0) return hash.update(`${at}`).digest('hex')
    const read = block.subarray(0, bytesRead)
    if (!read.equals(empty.subarray(0, bytesRead))) hash.update(`${at} ${bytesRead} `).update(read)
    at += bytesRead
  }
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
