/** One `SandboxSession` of @openai/agents. */
import { CofferdamError, isCofferdamError } from '@cofferdam/client'
import type { SandboxFiles } from './session-files.ts'
import { imageTypeOf } from '../image-type.ts'
import { checkManifest, manifestOf, writeEntries, writeEntry } from './openai-agents-manifest.ts'
import { cutToTokens, execText } from './openai-agents-output.ts'
import type {
  ExecArgs,
  ExecResult,
  ManifestShape,
  OpenAiAgentsSdk,
  OpenAiAgentsSession,
  OpenAiAgentsState,
  Editor,
  EditorResult,
} from './openai-agents-shape.ts'
import type { SessionSandbox } from './session-sandbox.ts'
import { quoted } from './shell-line.ts'

/** `endsWithRun`: whether `delete` and `close` end the session. */
export function createOpenAiAgentsSession<M extends ManifestShape>(
  sandbox: SessionSandbox,
  state: OpenAiAgentsState<M>,
  sdk: OpenAiAgentsSdk<M>,
  endsWithRun: boolean,
): OpenAiAgentsSession<M> {
  const { files } = sandbox
  const running = new Map<AbortController, Promise<unknown>>()

  async function exec(args: ExecArgs): Promise<ExecResult> {
    if (args.tty === true)
      throw new CofferdamError('capability_missing', 'This sandbox has no terminal. Call it with tty=false.')
    asItself(args.runAs)
    const command = args.shell === undefined ? args.cmd : `${quoted(args.shell)} -c ${quoted(args.cmd)}`
    const stop = new AbortController()
    const startMs = performance.now()
    let output = ''
    const run = sandbox.run(command, {
      env: session.state.environment,
      signal: stop.signal,
      onOutput: (_stream, text) => void (output += text),
      ...(args.workdir === undefined ? {} : { cwd: args.workdir }),
    })
    running.set(
      stop,
      run.catch(() => undefined),
    )
    try {
      const { exitCode, stdout, stderr } = await run
      const { text, ...cut } = cutToTokens(output, args.maxOutputTokens)
      const wallTimeSeconds = (performance.now() - startMs) / 1000
      return { output: text, stdout, stderr, wallTimeSeconds, exitCode, ...cut }
    } finally {
      running.delete(stop)
    }
  }

  async function stop(): Promise<void> {
    const stopping = [...running]
    for (const [one] of stopping) one.abort(new Error('The sandbox session was stopped.'))
    await Promise.all(stopping.map(([, run]) => run))
  }

  async function end(): Promise<void> {
    await stop()
    if (endsWithRun) await sandbox.end()
  }

  async function read(path: string): Promise<Uint8Array> {
    const bytes = await files.read(path)
    if (bytes === null) throw new CofferdamError('not_found', `File not found: ${path}`)
    return bytes
  }

  const session: OpenAiAgentsSession<M> = {
    state,
    running: async () => (await sandbox.find()) !== null,
    stop,
    delete: end,
    close: end,
    createEditor(runAs) {
      asItself(runAs)
      return createEditor(files, sdk.applyDiff)
    },
    exec,
    async execCommand(args) {
      try {
        return execText(await exec(args))
      } catch (error) {
        // The message is returned and not thrown, because the SDK would only tell the model that an error
        // occurred.
        if (isCofferdamError(error)) return `The command was not run: ${error.message}`
        throw error
      }
    },
    async viewImage({ path, runAs }) {
      asItself(runAs)
      const data = Uint8Array.from(await read(path))
      const mediaType = imageTypeOf(data)
      if (mediaType !== null) return { type: 'image', image: { data, mediaType } }
      throw new CofferdamError('invalid_request', `Unsupported image format for view_image: ${path}`)
    },
    async readFile({ path, runAs, maxBytes }) {
      asItself(runAs)
      return (await read(path)).subarray(0, maxBytes)
    },
    async listDir({ path, runAs }) {
      asItself(runAs)
      const entries = await files.list(path)
      if (entries === null) throw new CofferdamError('not_found', `Folder not found: ${path}`)
      const folder = path === '.' ? '' : `${path.replace(/\/+$/, '')}/`
      return entries.map(({ name, type }) => ({
        name,
        path: `${folder}${name}`,
        type: type === 'directory' ? 'dir' : type === 'file' ? 'file' : 'other',
      }))
    },
    async pathExists(path, runAs) {
      asItself(runAs)
      return (await files.stat(path)) !== null
    },
    async directoryExists(path, runAs) {
      asItself(runAs)
      return (await files.stat(path))?.type === 'directory'
    },
    async materializeEntry({ path, entry, runAs }) {
      asItself(runAs)
      await writeEntry(files, path, entry)
      const { manifest } = session.state
      session.state.manifest = manifestOf(sdk, manifest, { entries: { ...manifest.entries, [path]: entry } })
    },
    async applyManifest(added, runAs) {
      asItself(runAs)
      checkManifest(added)
      await writeEntries(files, '.', added.entries)
      const { manifest, environment } = session.state
      session.state.environment = { ...environment, ...(await added.resolveEnvironment()) }
      session.state.manifest = manifestOf(sdk, manifest, {
        entries: { ...manifest.entries, ...added.entries },
        environment: { ...manifest.environment, ...added.environment },
      })
    },
    supportsPty: () => false,
  }
  return session
}

/** Throws `capability_missing` for another user than the sandbox's own. */
function asItself(runAs: string | undefined): void {
  if (runAs !== undefined)
    throw new CofferdamError('capability_missing', 'This sandbox has one user. Leave runAs out.')
}

/**
 * Operations throw when the file is missing or the diff does not fit. The SDK tells the model about the
 * error.
 */
function createEditor(files: SandboxFiles, applyDiff: OpenAiAgentsSdk<never>['applyDiff']): Editor {
  const read = async (path: string): Promise<string> => {
    const bytes = await files.read(path)
    if (bytes === null) throw new CofferdamError('not_found', `There is no file ${path}.`)
    try {
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
    } catch (cause) {
      throw new CofferdamError('invalid_request', `${path} is not a text in UTF-8.`, { cause })
    }
  }
  return {
    async createFile({ path, diff }): Promise<EditorResult> {
      await files.write(path, applyDiff('', diff, 'create'))
      return {}
    },
    async updateFile({ path, diff, moveTo }) {
      const changed = applyDiff(await read(path), diff)
      const target = moveTo ?? path
      await files.write(target, changed)
      if (target !== path) await files.remove(path)
      return {}
    },
    async deleteFile({ path }) {
      if (!(await files.remove(path))) throw new CofferdamError('not_found', `There is no file ${path}.`)
      return {}
    },
  }
}
