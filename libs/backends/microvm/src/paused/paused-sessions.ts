/**
 * Pauses, resumes and forks sessions. The files on disk decide whether a session is paused. The registry
 * lists it, and its lease lets one worker at a time resume it.
 *
 *   pause    saved → committed on disk → listed            any failure: taken back, and the machine goes on
 *   resume   leased → running and thawed → delisted → off the disk     any failure: it is still paused
 *   fork     saved → the machine goes on → each fork committed and listed   any failure: all taken back
 *
 * One rename commits a session to disk, and one takes it off. So if a worker dies, a session is either paused
 * or not. A session that was not committed ends with its worker, as every session does.
 */
import {
  CofferdamError,
  isPausedEntry,
  newSandboxId,
  newSessionId,
  type SessionEntry,
  type SessionFork,
  type SessionLease,
  type SessionName,
  type SessionRegistry,
  type WorkerId,
} from '@cofferdam/contract'
import { parseReady } from '@cofferdam/sandbox/guest'
import type { CellState, PausedCells } from '@cofferdam/sandbox/warm'
import type { MicrovmImage } from '../image.ts'
import { resumeSlot, type MachineSlot, type StartParts } from '../start-slot.ts'
import { machineSize } from '../templates.ts'
import { entryOf, machineSpecOf, nameOf, recordOf, stateOf, type PausedRecord } from './paused-record.ts'
import type { Draft, PausedStore } from './paused-store.ts'

const MiB = 1_048_576
/** Longest wait for a session's lease: twice the time until a dead worker's lease expires. */
const WAIT_MS = 30_000
/** Space for the state of devices, and for what the stream adds to each page of memory. */
const OVERHEAD_MIB = 64

export interface PausedParts {
  start: StartParts
  store: PausedStore
  /** Undefined without a registry. Then no session is listed, and only one worker uses the folder. */
  sessions: SessionRegistry | undefined
  /** Every image that this worker has. */
  images: () => Promise<MicrovmImage[]>
  hostGroup: string
  maxAgeMs: number
  maxBytes: number
  maxPerTenant: number
  isSealed: boolean
}

type Lease = SessionLease | null

export interface PausedSessions extends PausedCells<MachineSlot> {
  /** Ends a paused session, whose lease the caller holds. True if it was there. */
  end(name: SessionName, entry: SessionEntry): Promise<boolean>
}

export function createPausedSessions(parts: PausedParts): PausedSessions {
  const { start, store, sessions, hostGroup } = parts

  const claim = async (name: SessionName, owner: WorkerId, signal: AbortSignal): Promise<Lease> =>
    sessions === undefined ? null : await sessions.claim(name, owner, { waitMs: WAIT_MS, signal })

  /** Makes the session paused both on disk and in the registry, or in neither. */
  async function publish(record: PausedRecord, draft: Draft, owner: WorkerId): Promise<void> {
    const name = nameOf(record)
    await using lease = await claim(name, owner, AbortSignal.timeout(WAIT_MS))
    await store.commit(record, draft)
    try {
      await lease?.keep(entryOf(record, hostGroup, lease.nextEpoch))
    } catch (error) {
      await store.remove(name)
      throw error
    }
  }

  /** Takes back what `publish` did. */
  async function withdraw(record: PausedRecord, owner: WorkerId): Promise<void> {
    const name = nameOf(record)
    await using lease = await claim(name, owner, AbortSignal.timeout(WAIT_MS))
    await store.remove(name)
    await lease?.forget()
  }

  /**
   * Saves the machine and leaves it stopped. If that fails, for example because a bound is exceeded, the
   * machine runs on.
   */
  async function save(
    slot: MachineSlot,
    tenantId: string,
    count: number,
    signal: AbortSignal,
  ): Promise<Draft> {
    await store.removeOld()
    const all = await store.list()
    if (all.filter((one) => one.tenant_id === tenantId).length + count > parts.maxPerTenant)
      throw new CofferdamError(
        'conflict',
        `The tenant may have ${parts.maxPerTenant} paused sessions here. Resume or end some of them first.`,
      )
    // Count each file once, because forks share a file.
    const files = new Map(all.map((one) => [one.file_id, one.bytes]))
    const taken = files.values().reduce((sum, bytes) => sum + bytes, 0)
    const most = (machineSize(slot.spec.limits).memoryMib + OVERHEAD_MIB) * MiB
    const maxBytes = Math.min(most, parts.maxBytes - taken)
    try {
      return await store.draft(tenantId, maxBytes, (to) => slot.save(to, signal))
    } catch (error) {
      await slot.goOn()
      throw error
    }
  }

  const recordFor = async (
    name: SessionName,
    slot: MachineSlot,
    state: CellState,
    draft: Draft,
    isFork: boolean,
  ): Promise<PausedRecord> => {
    const { isSealed, maxAgeMs } = parts
    const engine = await start.engine.templateKey()
    return recordOf({ name, slot, state, draft, isFork, engine, isSealed, maxAgeMs })
  }

  return {
    async has(name) {
      if ((await store.find(name)) !== null) return true
      const found = (await sessions?.find(name)) ?? null
      return found !== null && isPausedEntry(found)
    },

    async resume(name, owner, admit, signal) {
      await using lease = await claim(name, owner, signal)
      const record = await store.find(name)
      const entry = lease?.entry ?? null
      if (record === null) {
        if (entry === null || !isPausedEntry(entry)) return null
        refuseElsewhere(entry, hostGroup)
        await lease?.forget()
        throw new CofferdamError(
          'session_not_found',
          'The paused session has expired, or its files are gone.',
        )
      }
      if (record.expires_ms <= Date.now() || entry?.turn === 'ending') {
        await store.remove(name)
        await lease?.forget()
        return null
      }
      const spec = machineSpecOf(record, await parts.images(), await start.engine.templateKey())
      const ready = parseReady(Buffer.from(record.ready))
      if ('error' in ready) throw new CofferdamError('internal', 'A paused session has no agent.')
      const kind = { ...record.slot, cell: true }
      // A resumed machine shares no page with a template, so all of its memory counts.
      admit(kind, record.bytes)
      const bound = lease === null ? signal : AbortSignal.any([signal, lease.signal])
      const slot = await resumeSlot(
        start,
        { ...kind, slotId: newSandboxId(), owner },
        {
          saved: { spec, state: store.read(record) },
          ready,
          isFork: record.is_fork,
          image: record.machine.image,
        },
        bound,
      )
      try {
        await lease?.forget()
        await store.remove(name)
      } catch (error) {
        await slot.destroy()
        throw error
      }
      return { slot, state: stateOf(record) }
    },

    async pause(name, slot, state, signal) {
      const draft = await save(slot, name.tenantId, 1, signal)
      try {
        await publish(await recordFor(name, slot, state, draft, false), draft, slot.spec.owner)
      } catch (error) {
        await slot.goOn()
        throw error
      } finally {
        await draft.drop()
      }
    },

    async fork(name, slot, state, keys, signal) {
      const { tenantId, backend } = name
      const forks: SessionFork[] = []
      const missing: SessionName[] = []
      for (const key of keys) {
        const made = await store.find({ tenantId, backend, key })
        // This fork exists already: a worker made it and then died in the middle of this execution.
        if (made?.is_fork === true && made.session.execution_id === state.executionId)
          forks.push({ key, sessionId: made.session.id })
        else if (made !== null || key === name.key || (await isThere(sessions, { tenantId, backend, key })))
          throw new CofferdamError(
            'conflict',
            `There is a session ${key} already. End it, or fork to another key.`,
          )
        else missing.push({ tenantId, backend, key })
      }
      if (missing.length === 0) return forks
      const published: PausedRecord[] = []
      const draft = await save(slot, tenantId, missing.length, signal)
      try {
        await slot.goOn()
        for (const fork of missing) {
          const own = { ...state, id: newSessionId(), createdMs: Date.now(), ageMs: 0 }
          const record = await recordFor(fork, slot, own, draft, true)
          await publish(record, draft, slot.spec.owner)
          published.push(record)
          forks.push({ key: fork.key, sessionId: own.id })
        }
      } catch (error) {
        await Promise.allSettled(published.map((record) => withdraw(record, slot.spec.owner)))
        throw error
      } finally {
        await draft.drop()
      }
      return keys.flatMap((key) => forks.filter((fork) => fork.key === key))
    },

    async end(name, entry) {
      refuseElsewhere(entry, hostGroup)
      return await store.remove(name)
    },
  }
}

function refuseElsewhere({ handle }: SessionEntry, hostGroup: string): void {
  const group = handle['host_group']
  if (group === undefined || group === hostGroup) return
  throw new CofferdamError(
    'conflict',
    `The session is paused on the host group ${group}, and this worker is of ${hostGroup}. Only workers of ` +
      'the same host group reach it.',
  )
}

const isThere = async (sessions: SessionRegistry | undefined, name: SessionName): Promise<boolean> =>
  sessions !== undefined && (await sessions.find(name)) !== null
