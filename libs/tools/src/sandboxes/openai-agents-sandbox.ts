/**
 * Cofferdam sessions as sandboxes of @openai/agents: pass the client as `sandbox.client` of a run of a
 * `SandboxAgent`. Sessions have commands, files, patches and images, but no terminals, ports and users.
 */
import { CofferdamError } from '@cofferdam/client'
import { checkManifest, manifestOf, writeEntries } from './openai-agents-manifest.ts'
import { createOpenAiAgentsSession } from './openai-agents-session.ts'
import type {
  ManifestShape,
  OpenAiAgentsSdk,
  OpenAiAgentsSession,
  OpenAiAgentsState,
} from './openai-agents-shape.ts'
import { storedManifest } from './stored-manifest.ts'
import type { SandboxOptions } from './sandbox-options.ts'
import { createSessionSandbox, WORK_FOLDER } from './session-sandbox.ts'

export type { OpenAiAgentsSdk, OpenAiAgentsSession, OpenAiAgentsState, SandboxOptions }

export interface OpenAiAgentsSandboxOptions<M extends ManifestShape> extends SandboxOptions {
  sdk: OpenAiAgentsSdk<M>
  /**
   * Whether a session ends when the run that made it ends. Default: true, or false if there is a `key`, so
   * that the next run with that key finds its files.
   */
  endsWithRun?: boolean
}

interface CreateArgs {
  manifest?: object
  snapshot?: { type: string }
}

/** The methods of `SandboxClient` that this one has. */
export interface OpenAiAgentsSandboxClient<M> {
  backendId: string
  create(args?: CreateArgs | M, options?: object): Promise<OpenAiAgentsSession<M>>
  /** Continues a session. Throws `session_not_found` when it has ended. */
  resume(state: OpenAiAgentsState<M>): Promise<OpenAiAgentsSession<M>>
  /** Ends the session of a state. */
  delete(state: OpenAiAgentsState<M>): Promise<void>
  /** Plain JSON: backend and key of the session, and its manifest without what is ephemeral. */
  serializeSessionState(state: OpenAiAgentsState<M>): Promise<Record<string, unknown>>
  deserializeSessionState(stored: Record<string, unknown>): Promise<OpenAiAgentsState<M>>
  canPersistOwnedSessionState(): boolean
  resolveTrustedManifestForResume(manifest: M): M
}

/**
 * Creates the client. A command runs until it ends, at most `timeoutMs`: there is no terminal in which it
 * could go on. `login` and `yieldTimeMs` are therefore ignored.
 *
 * @example
 * import { applyDiff, run } from '@openai/agents'
 * import { Manifest, SandboxAgent } from '@openai/agents/sandbox'
 * const sandboxes = createOpenAiAgentsSandboxClient({
 *   client, tenantId: 'acme', agentId: 'coder', sdk: { Manifest, applyDiff },
 * })
 * await run(agent, 'Fix the tests.', { sandbox: { client: sandboxes } })
 */
export function createOpenAiAgentsSandboxClient<M extends ManifestShape>(
  options: OpenAiAgentsSandboxOptions<M>,
): OpenAiAgentsSandboxClient<M> {
  const { sdk, endsWithRun = options.key === undefined } = options
  const inWorkFolder = (manifest: Partial<ManifestShape>, root = WORK_FOLDER): M =>
    manifestOf(sdk, manifest, { root })
  const sandboxOf = ({ backend, key }: OpenAiAgentsState<M>) =>
    createSessionSandbox({ ...options, backend, key, mustExist: true })

  return {
    backendId: 'cofferdam',
    async create(args = {}) {
      const isManifest = args instanceof sdk.Manifest
      const { manifest: given, snapshot } = isManifest ? { manifest: args as M } : (args as CreateArgs)
      if (snapshot !== undefined && snapshot.type !== 'noop')
        throw new CofferdamError('capability_missing', 'A session cannot begin with a snapshot.')
      const asked = inWorkFolder((given ?? {}) as Partial<ManifestShape>)
      checkManifest(asked)
      const sandbox = createSessionSandbox(options)
      const { backend, key, root } = await sandbox.open()
      const manifest = root === WORK_FOLDER ? asked : inWorkFolder(asked, root)
      const environment = await manifest.resolveEnvironment()
      try {
        await writeEntries(sandbox.files, '.', manifest.entries)
      } catch (error) {
        if (endsWithRun) await sandbox.end()
        throw error
      }
      const state = { manifest, environment, backend, key, workspaceReady: true }
      return createOpenAiAgentsSession(sandbox, state, sdk, endsWithRun)
    },
    async resume(state) {
      const sandbox = sandboxOf(state)
      await sandbox.open()
      const environment = { ...state.environment, ...(await state.manifest.resolveEnvironment()) }
      return createOpenAiAgentsSession(sandbox, { ...state, environment }, sdk, endsWithRun)
    },
    delete: (state) => sandboxOf(state).end(),
    serializeSessionState: async ({ backend, key, manifest }) => ({
      backend,
      key,
      workspaceReady: true,
      manifest: storedManifest(manifest),
    }),
    async deserializeSessionState({ backend, key, manifest = {} }) {
      if (typeof backend !== 'string' || typeof key !== 'string')
        throw new CofferdamError('invalid_request', 'Not the state of a session: it has no backend and key.')
      const found = manifest as Partial<ManifestShape>
      return { backend, key, workspaceReady: true, environment: {}, manifest: manifestOf(sdk, found, {}) }
    },
    // A session that ends with its run cannot be resumed, so its state is not persisted.
    canPersistOwnedSessionState: () => !endsWithRun,
    resolveTrustedManifestForResume: (manifest) => inWorkFolder(manifest),
  }
}
