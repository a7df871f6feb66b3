/**
 * A workspace: named files of a tenant that executions find in their work directory and change. It lives in the store; a
 * sandbox has a copy. What an execution changed is merged back against what it was given (libs/workspace-sync).
 */
import { z } from 'zod'
import { BOUNDS } from './limits.ts'

/** What is known of one file without its bytes. */
export interface FileFacts {
  /** 64 hex digits. */
  sha256: string
  size: number
  /** Permission bits; those of a new file from a sandbox are 0o644, for sandboxes tell no others. */
  mode: number
}

/** Path → facts. A map, for paths may be called `__proto__`. */
export type Manifest = ReadonlyMap<string, FileFacts>

/** A workspace of a tenant. */
export interface WorkspaceName {
  tenantId: string
  name: string
}

/** Every method throws `store_unavailable`. */
export interface WorkspaceStore {
  /** Version 0 and no files where there is none. */
  read(workspace: WorkspaceName): Promise<{ version: number; manifest: Manifest }>
  /** The bytes of those hashes that the workspace holds. */
  contents(workspace: WorkspaceName, sha256s: readonly string[]): Promise<Map<string, Uint8Array>>
  /**
   * Replaces the manifest when the version is still `expectedVersion` and, where it is given, the manifest `expectedManifest`: a workspace
   * that was removed and made again counts from 1 again. Null when it is not. `contents` brings the bytes that the workspace does not hold
   * yet; what no path names any more goes.
   */
  commit(
    workspace: WorkspaceName,
    change: {
      expectedVersion: number
      expectedManifest?: Manifest
      manifest: Manifest
      contents: ReadonlyMap<string, Uint8Array>
    },
  ): Promise<number | null>
}

export const SYNC_DIRECTIONS = ['both', 'in', 'out', 'never'] as const
/** `in`: into sandboxes only. `out`: out of them only. */
export type SyncDirection = (typeof SYNC_DIRECTIONS)[number]

/** What happens to a file that both sides changed. */
export const CONFLICT_POLICIES = ['keep-both', 'fail', 'host-wins', 'sandbox-wins'] as const
export type ConflictPolicy = (typeof CONFLICT_POLICIES)[number]

/** Whether a text names paths of a workspace: it has a part, and none leads out. */
export function isPattern(text: string): boolean {
  const parts = text.split('/').filter((part) => part !== '' && part !== '.')
  // eslint-disable-next-line no-control-regex
  return parts.length > 0 && !text.startsWith('/') && !/[\0\\]/.test(text) && !parts.includes('..')
}

export const syncRuleSchema = z.strictObject({
  /** Path from the workspace's root; `*` within a name, `**` for any folders. A folder stands for all that is in it. */
  pattern: z
    .string()
    .max(BOUNDS.pathLength)
    .refine(isPattern, 'expected a relative path without "..", backslashes or NUL; * and ** are wildcards'),
  direction: z.enum(SYNC_DIRECTIONS),
  /** Lets sandboxes write files that steer programs outside of them, such as `mcp_servers.json`. */
  control: z.boolean().optional(),
})
export type SyncRule = z.infer<typeof syncRuleSchema>

/** One path that was not simply taken over, and why. */
const notTakenSchema = z.strictObject({ path: z.string(), reason: z.string() })

/** What became of the files that an execution changed. */
export const workspaceReportSchema = z.strictObject({
  name: z.string(),
  /** Of the workspace after the merge. */
  version: z.int().min(0),
  /** `failed`: nothing was merged; `reason` says why. */
  status: z.enum(['merged', 'unchanged', 'failed']),
  reason: z.string().optional(),
  applied: z.array(z.strictObject({ path: z.string(), change: z.enum(['written', 'deleted']) })),
  /** Both sides changed them. `kept_as`: where the sandbox's version stands now. */
  conflicted: z.array(z.strictObject({ path: z.string(), kept_as: z.string().nullable() })),
  refused: z.array(notTakenSchema),
  /** Paths that the lists above leave out: each holds at most 1,000. */
  omitted: z.int().min(0),
})
export type WorkspaceReport = z.infer<typeof workspaceReportSchema>
