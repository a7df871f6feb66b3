/**
 * Puts workspaces into sandboxes. A fresh sandbox gets the whole workspace. The sandbox of a session gets
 * what changed since its last program. After the program the worker merges the files back, under
 * compare-and-swap of the workspace's version. Redis keeps, per session and workspace, what the sandbox holds
 * and whether a program may have changed it:
 *
 *   clean → enter → open → leave → clean
 *   open, and the worker died or the merge failed → the next execution of the session merges before it begins
 *
 * If the entry in Redis is missing, the base is empty. Then every file that differs is a conflict, so nothing
 * is lost.
 */
import {
  CofferdamError,
  fileBytes,
  programSource,
  type ExecutionRequest,
  type FileFacts,
  type Manifest,
  type Sandbox,
  type WorkspaceReport,
  type WorkspaceStore,
} from '@cofferdam/contract'
import type { WorkspaceTurn } from '@cofferdam/executor'
import { keysOf, type Taken } from '@cofferdam/queue'
import {
  baseOf,
  carryBack,
  carryIn,
  compileRules,
  EMPTY_MANIFEST,
  sha256Of,
  type CarriedIn,
} from '@cofferdam/workspace-sync'
import type { Redis } from 'ioredis'
import { z } from 'zod'
import { readSandbox, type Inputs } from './read-sandbox.ts'

/** Longer than a session lives: a day of running, an hour of idling. */
const KEPT_MS = 48 * 3_600_000

const rememberedSchema = z.object({
  clean: z.boolean(),
  files: z.array(z.tuple([z.string(), z.string(), z.int(), z.int()])),
  inputs: z.array(z.tuple([z.string(), z.string(), z.int()])),
})

/** What a session's sandbox held after its last program. */
interface Remembered {
  clean: boolean
  held: Manifest
  /** Files that requests added to the workspace. They are no results while they are unchanged. */
  inputs: Input[]
}

export interface Workspaces {
  /** Undefined when the request names no workspace. Throws `invalid_request` for malformed rules. */
  open(taken: Pick<Taken, 'request' | 'executionId' | 'keep'>): WorkspaceTurn | undefined
}

export function createWorkspaces(deps: { redis: Redis; store: WorkspaceStore }): Workspaces {
  const { redis, store } = deps
  /**
   * The key without its prefix. Null without a session, because then no other execution gets this sandbox.
   */
  const nameOf = (sandbox: Sandbox, tenantId: string, name: string): string | null =>
    sandbox.session === null ? null : `${tenantId}:${sandbox.session.id}:${name}`

  async function recall(name: string | null, isFresh: boolean): Promise<Remembered> {
    const nothing = { clean: isFresh, held: EMPTY_MANIFEST, inputs: [] }
    if (name === null || isFresh) return nothing
    const text = await redis.get(keysOf(redis).workspace + name)
    const parsed = rememberedSchema.safeParse(text === null ? null : JSON.parse(text))
    if (!parsed.success) return nothing
    const { files, ...rest } = parsed.data
    const held = new Map(files.map(([path, sha256, size, mode]) => [path, { sha256, size, mode }]))
    return { ...rest, held }
  }

  /**
   * Throws `fenced` if another worker owns the execution. Then the turn of that worker decides what is
   * remembered.
   */
  async function remember(
    taken: Pick<Taken, 'keep'>,
    name: string | null,
    { held, ...rest }: Remembered,
  ): Promise<void> {
    if (name === null) return
    const files = [...held].map(([path, { sha256, size, mode }]) => [path, sha256, size, mode])
    await taken.keep('workspace', name, JSON.stringify({ ...rest, files }), KEPT_MS)
  }

  return {
    open(taken) {
      const { request, executionId } = taken
      const field = request.workspace
      if (field === undefined) return undefined
      const rules = compileRules(field.rules)
      const workspace = { tenantId: request.tenant_id, name: field.name }
      let inputs = inputsOf(request)

      /** Merges the sandbox's files back. `held` is what the sandbox holds of the workspace afterwards. */
      const take = async (
        sandbox: Sandbox,
        baseFor: (manifest: Manifest) => Manifest,
        known: Manifest,
        signal: AbortSignal,
      ): Promise<{ report: WorkspaceReport; held: Manifest }> => {
        const found = await readSandbox({ sandbox, base: known, rules, inputs: matcherOf(inputs), signal })
        signal.throwIfAborted()
        const report = await carryBack(store, {
          workspace,
          base: baseFor(found.manifest),
          sandbox: found.manifest,
          bytesOf: (path) => found.bytes.get(path) ?? new Uint8Array(),
          rules,
          onConflict: field.on_conflict,
          job: executionId,
          refused: found.refused,
        })
        const { manifest: host } = await store.read(workspace)
        // Files unknown to the workspace belong to the session and are never removed from the sandbox.
        const held = new Map<string, FileFacts>(
          [...found.manifest].filter(([path]) => host.has(path) || known.has(path)),
        )
        return { report, held }
      }

      let carried: CarriedIn | null = null
      /** The merge of changes that an earlier execution of the session left unmerged. */
      let recovered: WorkspaceReport | null = null
      return {
        name: field.name,
        async enter(sandbox, signal) {
          const name = nameOf(sandbox, request.tenant_id, field.name)
          const remembered = await recall(name, sandbox.session?.fresh ?? true)
          let { held } = remembered
          inputs = [...remembered.inputs, ...inputs].slice(-MAX_INPUTS)
          if (!remembered.clean) {
            const left = await take(sandbox, () => held, held, signal)
            // The sandbox still has changes that were not merged. Writing the workspace into it would
            // overwrite them.
            if (left.report.status === 'failed')
              throw new CofferdamError(
                'conflict',
                'the session holds changes of an earlier execution that are in conflict; ' +
                  'ask with another on_conflict',
              )
            ;({ held, report: recovered } = left)
          }
          carried = await carryIn(store, workspace, rules, held)
          signal.throwIfAborted()
          await remember(taken, name, { clean: false, held, inputs })
          for (const path of carried.removed) await sandbox.remove(path)
          if (carried.files.length > 0) await sandbox.write(carried.files)
          // Some backends send a write only with the next other call. This listing sends it now, so that the
          // request's files, which follow, have a size limit of their own.
          if (carried.files.length > 0) await sandbox.list(['*'], 1)
          await remember(taken, name, { clean: false, held: carried.manifest, inputs })
        },
        async leave(sandbox, signal) {
          const given = carried
          if (given === null) throw new Error('a workspace was left that was not entered')
          const { report, held } = await take(
            sandbox,
            (found) => baseOf(given, found),
            given.manifest,
            signal,
          )
          // After a failed merge the next execution of the session merges again.
          await remember(taken, nameOf(sandbox, request.tenant_id, field.name), {
            clean: report.status !== 'failed',
            held: report.status === 'failed' ? given.manifest : held,
            inputs,
          })
          return recovered === null ? report : together(recovered, report)
        },
      }
    },
  }
}

/** One report of the merges before and after the program. */
function together(before: WorkspaceReport, after: WorkspaceReport): WorkspaceReport {
  return {
    ...after,
    status: after.status === 'unchanged' ? before.status : after.status,
    applied: [...before.applied, ...after.applied],
    conflicted: [...before.conflicted, ...after.conflicted],
    // `refused` is not joined: the later report lists the same files again, because they are still there.
    omitted: before.omitted + after.omitted,
  }
}

/** What a request adds to the workspace: its files, and its program ('': the backend chooses the name). */
type Input = [path: string, sha256: string, size: number]

/**
 * How many inputs of a session are remembered, the newest ones. Two of the largest requests have this many.
 */
const MAX_INPUTS = 2000

function inputsOf({ program, files = [] }: ExecutionRequest): Input[] {
  const input = (path: string, bytes: Uint8Array): Input => [path, sha256Of(bytes), bytes.length]
  return [
    input('', Buffer.from(programSource(program))),
    ...files.map((file) => input(file.path, fileBytes(file))),
  ]
}

function matcherOf(inputs: readonly Input[]): Inputs {
  const at = (path: string): Input[] =>
    inputs.filter(([own]) => own === path || (own === '' && !path.includes('/')))
  return {
    mayBe: (path, size) => at(path).some(([, , own]) => own === size),
    are: (path, bytes) => at(path).some(([, own]) => own === sha256Of(bytes)),
  }
}
