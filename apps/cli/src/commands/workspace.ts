import path from 'node:path'
import { diffManifests, manifestOf } from '@cofferdam/workspace-sync'
import { openApi } from '../api-connection.ts'
import { API_FLAGS, type Command, CommandFailure, type Context } from '../command.ts'
import { EXIT } from '../exit-status.ts'
import { findVerb, textFlag, verbUsage, type Verb } from '../parse-command-line.ts'
import {
  isAtOrBelow,
  isCommon,
  type Pulled,
  pullInto,
  readCommon,
  readFolder,
  type WorkspaceOf,
  writeCommon,
} from '../workspace-folder.ts'
import { remoteWorkspace, type RemoteWorkspace } from '../workspace-remote.ts'

/** A further round is needed when somebody else replaced the workspace meanwhile. */
const MAX_ROUNDS = 8
/** How many files are listed by name. --json lists all. */
const MAX_LISTED = 20

interface Call {
  of: WorkspaceOf
  remote: RemoteWorkspace
  folder: string
  context: Context
}

const VERBS: Record<string, Verb<(call: Call) => Promise<number>>> = {
  pull: { usage: 'NAME [FOLDER]', run: pull },
  push: { usage: 'NAME [FOLDER]', run: push },
}

export const command: Command = {
  usage: verbUsage(VERBS),
  details:
    'pull copies what changed in the workspace into the folder (default: a folder of the same name here). ' +
    'push copies what\n' +
    'changed in the folder into the workspace. Neither overwrites a change of the other side. If both ' +
    'changed a file, your\n' +
    'version keeps its name, the workspace’s version is saved beside it as NAME.conflict-vVERSION, ' +
    'nothing is pushed, and\n' +
    'the exit status is 3. Resolve the conflict, then push. Secrets, such as .env and .ssh, and links are ' +
    'never copied.\n' +
    '.cofferdam-workspace.json in the folder records the version that both sides last had in common.',
  flags: {
    tenant: { type: 'string', value: 'ID', description: 'tenant of the workspace (default: demo)' },
    ...API_FLAGS,
  },
  words: { min: 2, max: 3 },
  examples: [
    'cofferdam workspace pull notes --tenant demo',
    'cofferdam workspace push notes ./notes --tenant demo',
  ],
  async run(context, line) {
    const { run, words } = findVerb('workspace', VERBS, line.words)
    const [name = '', folder = name] = words
    const of = { tenantId: textFlag(line, 'tenant') ?? 'demo', name }
    const remote = remoteWorkspace(openApi(context, line), of.tenantId, name)
    return await run({ of, remote, folder: path.resolve(context.cwd, folder), context })
  },
}

async function pull(call: Call): Promise<number> {
  const { of, remote, folder, context } = call
  const common = await readCommon(folder, of)
  const now = await remote.read()
  if (now === null)
    throw new CommandFailure(
      `The tenant ${of.tenantId} has no workspace ${of.name}. Create one with cofferdam workspace push.`,
    )
  const pulled = await pullInto(folder, of, common, now)
  const { written, deleted } = countsOf(pulled)
  tell(
    context,
    now.version,
    pulled,
    `Version ${now.version}: ${written} written, ${deleted} deleted in ${folder}.`,
  )
  return pulled.conflicted.length > 0 ? EXIT.conflict : EXIT.ok
}

async function push(call: Call): Promise<number> {
  const { of, remote, folder, context } = call
  let common = await readCommon(folder, of)
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const { files, refused } = await readFolder(folder, { make: false })
    const manifest = manifestOf(files)
    const { changed, deleted } = diffManifests(common.manifest, manifest)
    const hidden = refused.find(({ path: left }) => deleted.some((file) => isAtOrBelow(file, left)))
    if (hidden !== undefined)
      throw new CommandFailure(
        `${JSON.stringify(hidden.path)} is in the workspace, but a push cannot copy it from here ` +
          `(${hidden.reason}) and would delete it there. ` +
          'Remove it from the folder if that is what you want.',
      )
    const isSame = common.version > 0 && changed.size + deleted.length === 0
    const now = isSame ? null : await remote.read()
    if (!isSame && now === null && common.version > 0)
      throw new CommandFailure(
        `The workspace ${of.name} was deleted. Remove .cofferdam-workspace.json from ${folder} to create ` +
          `it again.`,
      )
    if (now !== null && !isCommon(now, common)) {
      const pulled = await pullInto(folder, of, common, now)
      if (pulled.conflicted.length > 0) {
        tell(context, now.version, pulled, 'Nothing was pushed: the same files changed in the workspace.')
        return EXIT.conflict
      }
      common = await readCommon(folder, of)
      continue
    }
    const version = isSame ? common.version : await remote.replace(now, files)
    if (version === null) continue
    await writeCommon(folder, of, { version, manifest })
    for (const left of refused.slice(0, MAX_LISTED))
      context.terminal.note(`Left out: ${JSON.stringify(left.path)} (${left.reason})`)
    context.terminal.value({ version, changed: changed.size, deleted: deleted.length, left_out: refused })
    context.terminal.line(
      isSame
        ? `Nothing changed since version ${version}.`
        : `Version ${version}: ${changed.size} changed, ${deleted.length} deleted in ${of.name}.`,
    )
    return EXIT.ok
  }
  throw new CommandFailure('The workspace changes faster than it can be pushed. Try again.')
}

const countsOf = ({ applied }: Pulled) => ({
  written: applied.filter(({ change }) => change === 'written').length,
  deleted: applied.filter(({ change }) => change === 'deleted').length,
})

function tell({ terminal }: Context, version: number, pulled: Pulled, words: string): void {
  const { applied, conflicted } = pulled
  terminal.value({ version, applied, conflicted })
  terminal.line(words)
  for (const { path: name, kept_as: beside } of conflicted.slice(0, MAX_LISTED))
    terminal.note(
      beside === null
        ? `Conflict: ${JSON.stringify(name)} was deleted in the workspace; your version stays.`
        : `Conflict: ${JSON.stringify(name)} stays as it is here; the workspace's version is ${JSON.stringify(beside)}.`,
    )
}
