/**
 * A workspace is a set of named files of a tenant, kept in the store. An execution gets a copy of them in its
 * work directory, and its changes are merged back (libs/workspace-sync).
 */
import { z } from 'zod'
import { BOUNDS } from './limits.ts'
import { nameSchema } from './name.ts'

export interface FileFacts {
  /** 64 hex digits. */
  sha256: string
  size: number
  /** Permission bits. A new file from a sandbox has 0o644, because sandboxes do not report them. */
  mode: number
}

/** A Map, because a path can be `__proto__`. */
export type Manifest = ReadonlyMap<string, FileFacts>

export interface WorkspaceName {
  tenantId: string
  name: string
}

/** Every method throws `store_unavailable`. */
export interface WorkspaceStore {
  /** Version 0 without files if the workspace does not exist. */
  read(workspace: WorkspaceName): Promise<{ version: number; manifest: Manifest }>
  /** The bytes of these hashes. Leaves out hashes that the workspace does not have. */
  contents(workspace: WorkspaceName, sha256s: readonly string[]): Promise<Map<string, Uint8Array>>
  /**
   * Replaces the manifest and returns the new version. Null when the version is not `expectedVersion`, or
   * when the manifest is not the given `expectedManifest`. The manifest is compared because a workspace that
   * was deleted and created again counts from 1 again. `contents` has the bytes that the workspace does not
   * have yet. Bytes that no path uses any more are deleted. Throws `too_many_workspaces` if the tenant may
   * not create another one.
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
/** `in`: only into sandboxes. `out`: only out of them. */
export type SyncDirection = (typeof SYNC_DIRECTIONS)[number]

/** What happens to a file that both sides changed. */
export const CONFLICT_POLICIES = ['keep-both', 'fail', 'host-wins', 'sandbox-wins'] as const
export type ConflictPolicy = (typeof CONFLICT_POLICIES)[number]

/**
 * Why a text is no pattern for paths inside a workspace. Null when it is one. The bounds keep matching cheap:
 * a worker matches every path against every rule.
 */
export function patternProblem(text: string): string | null {
  const parts = text.split('/').filter((part) => part !== '' && part !== '.')
  // eslint-disable-next-line no-control-regex
  if (parts.length === 0 || text.startsWith('/') || /[\0\\]/.test(text) || parts.includes('..'))
    return 'expected a relative path without "..", backslashes or NUL; * and ** are wildcards'
  if (parts.filter((part) => part === '**').length > BOUNDS.patternGlobstars)
    return `expected at most ${BOUNDS.patternGlobstars} parts "**"; several in a row mean the same as one`
  if (parts.length > BOUNDS.patternParts)
    return `expected at most ${BOUNDS.patternParts} parts; name a folder to mean everything in it`
  // Names are compared after this normalization, which turns some other characters into asterisks.
  return text.normalize('NFKC').split('*').length - 1 > BOUNDS.patternStars
    ? `expected at most ${BOUNDS.patternStars} characters "*"; split the pattern into several rules`
    : null
}

export const syncRuleSchema = z.strictObject({
  pattern: z
    .string()
    .max(BOUNDS.pathLength)
    .superRefine((text, context) => {
      const problem = patternProblem(text)
      if (problem !== null) context.addIssue({ code: 'custom', message: problem })
    })
    .meta({
      description:
        'Paths from the root of the workspace. `*` stays within a name, `**` crosses folders. A folder ' +
        'means everything in it.',
      example: 'reports/**',
    }),
  direction: z.enum(SYNC_DIRECTIONS).meta({
    description:
      'both: copied in and merged back. in: only into sandboxes. out: only out of them. never: neither.',
  }),
  control: z
    .boolean()
    .optional()
    .meta({
      description:
        'Lets sandboxes write files that control programs outside of them, such as mcp_servers.json. ' +
        'Default: false.',
    }),
})
export type SyncRule = z.infer<typeof syncRuleSchema>

/** The workspace of a request. */
export const workspaceFieldSchema = z.strictObject({
  name: nameSchema.meta({
    description: 'A workspace of the tenant. It need not exist yet.',
    example: 'notes',
  }),
  on_conflict: z
    .enum(CONFLICT_POLICIES)
    .default('keep-both')
    .meta({
      description:
        'What happens to a file that both sides changed: keep both versions, fail the merge, or let the ' +
        'workspace (host-wins) or the sandbox (sandbox-wins) win.',
    }),
  rules: z
    .array(syncRuleSchema)
    .min(1)
    .max(BOUNDS.workspaceRules)
    .optional()
    .meta({
      description:
        'The first rule that matches a path decides. A path that matches none is not copied. Default: all ' +
        'files both ways.',
    }),
})

const pathOf = z.string().meta({
  description: 'Relative to the root of the workspace.',
  example: 'reports/may.csv',
})

/** A path that was not merged, and why. */
const notTakenSchema = z.strictObject({
  path: pathOf,
  reason: z.string().meta({ description: 'Why it was not merged.', example: 'file_too_large' }),
})

/** What happened to the files that an execution changed. */
export const workspaceReportSchema = z.strictObject({
  name: z.string().meta({ description: 'The workspace.', example: 'notes' }),
  version: z.int().min(0).meta({ description: 'Its version after the merge.', example: 4 }),
  status: z.enum(['merged', 'unchanged', 'failed']).meta({
    description: 'failed: nothing was merged, and reason says why.',
  }),
  reason: z
    .string()
    .optional()
    .meta({ description: 'Why it failed. Otherwise absent.', example: 'conflict' }),
  applied: z
    .array(
      z.strictObject({
        path: pathOf,
        change: z.enum(['written', 'deleted']).meta({ description: 'What was done to it.' }),
      }),
    )
    .meta({ description: 'Changes that were merged, at most 1,000.' }),
  conflicted: z
    .array(
      z.strictObject({
        path: pathOf,
        kept_as: z.string().nullable().meta({
          description: 'The path of the sandbox’s version. Null if it was not kept.',
          example: 'reports/may.csv.conflict-exe_01a1fa08335671eda83cd82154726441',
        }),
      }),
    )
    .meta({ description: 'Files that both sides changed, at most 1,000.' }),
  refused: z.array(notTakenSchema).meta({ description: 'Changes that were not merged, at most 1,000.' }),
  omitted: z
    .int()
    .min(0)
    .meta({ description: 'Number of paths that the lists above leave out.', example: 0 }),
})
export type WorkspaceReport = z.infer<typeof workspaceReportSchema>
