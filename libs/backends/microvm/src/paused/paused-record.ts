/** What is written beside the saved machine of a paused session, so that another worker can go on with it. */
import {
  CofferdamError,
  executionIdSchema,
  LANGUAGES,
  nameSchema,
  sessionKeySchema,
  SESSION_SCOPES,
  type SessionEntry,
  type SessionId,
  type SessionName,
} from '@cofferdam/contract'
import type { CellState } from '@cofferdam/sandbox/warm'
import { z } from 'zod'
import type { MachineSpec } from '../engine.ts'
import type { MicrovmImage } from '../image.ts'
import type { MachineSlot } from '../start-slot.ts'
import { machineSize } from '../templates.ts'

const count = z.int().min(0)
const amount = z.number().positive()
const sha256 = z.string().regex(/^[0-9a-f]{64}$/)

export const pausedRecordSchema = z.strictObject({
  format: z.literal(1),
  tenant_id: nameSchema,
  backend: nameSchema,
  key: sessionKeySchema,
  session: z.strictObject({
    id: z
      .string()
      .regex(/^ses_[0-9a-f]{32}$/)
      .transform((id) => id as SessionId),
    scope: z.enum(SESSION_SCOPES),
    runs: count,
    created_ms: count,
    age_ms: count,
    idle_ms: count,
    execution_id: executionIdSchema,
  }),
  slot: z.strictObject({
    language: z.enum([...LANGUAGES, 'none']),
    preload: z.array(z.string().max(256)).max(1000),
    limits: z.strictObject({ memory_mib: amount, cpus: amount, pids: amount, disk_mib: amount }),
  }),
  machine: z.strictObject({
    /** Digests of the image that the machine was booted from. */
    image: z.strictObject({ kernel: sha256, initramfs: sha256, root: sha256 }),
    /** The engine's key of templates: version, flags, model of the CPU. */
    engine: z.string().max(1024),
    memory_mib: count,
    vcpus: count,
  }),
  /** The agent's ready frame, as JSON. */
  ready: z.string().max(8192),
  /** Another machine goes on from the same state. */
  is_fork: z.boolean(),
  /** ID of the saved machine's file. The forks of one save share it. */
  file_id: z.string().regex(/^[0-9a-f]{32}$/),
  bytes: count,
  is_sealed: z.boolean(),
  paused_ms: count,
  expires_ms: count,
})
export type PausedRecord = z.output<typeof pausedRecordSchema>

export const nameOf = ({ tenant_id, backend, key }: PausedRecord): SessionName => ({
  tenantId: tenant_id,
  backend,
  key,
})

/** The record of a session whose machine was just saved. */
export function recordOf(what: {
  name: SessionName
  slot: MachineSlot
  state: CellState
  draft: { fileId: string; bytes: number }
  isFork: boolean
  engine: string
  isSealed: boolean
  maxAgeMs: number
}): PausedRecord {
  const { name, slot, state, draft } = what
  const { language, preload, limits } = slot.spec
  const { memoryMib, vcpus } = machineSize(limits)
  const nowMs = Date.now()
  return {
    format: 1,
    tenant_id: name.tenantId,
    backend: name.backend,
    key: name.key,
    session: {
      id: state.id,
      scope: state.scope,
      runs: state.runs,
      created_ms: state.createdMs,
      age_ms: state.ageMs,
      idle_ms: state.idleMs,
      execution_id: state.executionId,
    },
    slot: { language, preload: [...preload], limits },
    machine: { image: slot.image, engine: what.engine, memory_mib: memoryMib, vcpus },
    ready: JSON.stringify(slot.ready),
    is_fork: what.isFork,
    file_id: draft.fileId,
    bytes: draft.bytes,
    is_sealed: what.isSealed,
    paused_ms: nowMs,
    expires_ms: nowMs + what.maxAgeMs,
  }
}

/** The entry with which the registry lists a paused session. */
export const entryOf = (record: PausedRecord, hostGroup: string, epoch: number): SessionEntry => ({
  sessionId: record.session.id,
  scope: record.session.scope,
  epoch,
  handle: { paused_bytes: record.bytes, host_group: hostGroup },
  createdAtMs: record.session.created_ms,
  usedAtMs: record.paused_ms,
  executionId: record.session.execution_id,
  idleAtMs: record.expires_ms,
  expiresAtMs: record.expires_ms,
})

/** The state that the session's cell had when it was paused. */
export const stateOf = ({ session }: PausedRecord): CellState => ({
  id: session.id,
  scope: session.scope,
  runs: session.runs,
  createdMs: session.created_ms,
  ageMs: session.age_ms,
  idleMs: session.idle_ms,
  executionId: session.execution_id,
})

/**
 * The machine to resume. Throws `conflict` if this worker lacks the image or has another engine key than the
 * paused machine.
 */
export function machineSpecOf(
  { machine }: PausedRecord,
  images: readonly MicrovmImage[],
  engine: string,
): MachineSpec {
  const { kernel, initramfs, root } = machine.image
  const found = images.find(
    ({ manifest: { sha256 } }) =>
      sha256.kernel === kernel && sha256.initramfs === initramfs && sha256.root === root,
  )
  if (found === undefined)
    throw new CofferdamError('conflict', 'The image that the paused session was booted from is not here.')
  if (engine !== machine.engine)
    throw new CofferdamError(
      'conflict',
      `The session was paused on another kind of host or emulator (${machine.engine}, here: ${engine}).`,
    )
  const { memory_mib: memoryMib, vcpus } = machine
  return { kernel: found.kernel, initramfs: found.initramfs, root: found.root, memoryMib, vcpus }
}
