import path from 'node:path'
import { manifestOf, diffManifests } from '@cofferdam/workspace-sync'
import { openApi } from '../api-connection.ts'
import { CommandFailure } from '../command-failure.ts'
import { API_FLAGS, type Command, type Context } from '../command.ts'
import { EXIT } from '../exit-status.ts'
import { findVerb } from '../find-verb.ts'
import { textFlag } from '../parse-command-line.ts'
import {
  isAtOrBelow,
  isCommon,
  pullInto,
  readCommon,
  readFolder,
  writeCommon,
  type Pulled,
  type WorkspaceOf,
} from '../workspace-folder.ts'
import { remoteWorkspace, type RemoteWorkspace } from '../workspace-remote.ts'

/** Each round means that somebody else replaced the workspace in between. */
const MAX_ROUNDS = 8
/** Names of files that are listed one by one; --json has all. */
const MAX_LISTED = 20

interface Call {
  of: WorkspaceOf
  remote: RemoteWorkspace
  folder: string
  context: Context
}

const VERBS: Record<string, (call: Call) => Promise<number>> = { pull, push }

export const command: Command = {
  usage: 'pull NAME [FOLDER] | push NAME [FOLDER]',
  details:
    'pull brings what changed in the workspace into the folder (default: one of its name here), push what changed in the folder into the\n' +
    'workspace. Neither overwrites what the other side changed: where both changed a file, yours keeps its name and the workspace’s\n' +
    'stands beside it as NAME.conflict-vVERSION, nothing is pushed, and the exit status is 3; settle it, and push. Secrets, such as\n' +
    '.env and .ssh, and links go neither way. .cofferdam-workspace.json in the folder says what the two last had in common.',
  flags: {
    tenant: { type: 'string', value: 'ID', description: 'whose workspace (default: demo)' },
    ...API_FLAGS,
  },
  words: { min: 2, max: 3 },
  examples: [
    'cofferdam workspace pull notes --tenant demo',
    'cofferdam workspace push notes ./notes --tenant demo',
  ],
  async run(context, line) {
    const [verbName = '', name = '', folder = name] = line.words
    const verb = findVerb('workspace', VERBS, verbName)
    const of = { tenantId: textFlag(line, 'tenant') ?? 'demo', name }
    const remote = remoteWorkspace(openApi(context, line), of.tenantId, name)
    return await verb({ of, remote, folder: path.resolve(context.cwd, folder), context })
  },
}

async function pull(call: Call): Promise<number> {
  const { of, remote, folder, context } = call
  const common = await readCommon(folder, of)
  const now = await remote.read()
  if (now === null) throw new CommandFailure(`${of.tenantId} has no workspace ${of.name}.`)
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
        `${JSON.stringify(hidden.path)} is in the workspace and cannot be carried (${hidden.reason}): a push would delete it there. Remove it to mean that.`,
      )
    const isSame = common.version > 0 && changed.size + deleted.length === 0
    const now = isSame ? null : await remote.read()
    if (!isSame && now === null && common.version > 0)
      throw new CommandFailure(
        `The workspace ${of.name} is gone. Remove .cofferdam-workspace.json from ${folder} to make it again.`,
      )
    if (now !== null && !isCommon(now, common)) {
      const pulled = await pullInto(folder, of, common, now)
      if (pulled.conflicted.length > 0) {
        tell(
          context,
          now.version,
          pulled,
          'Nothing was pushed: the workspace changed the same files meanwhile.',
        )
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
  throw new CommandFailure('The workspace changes faster than it can be pushed: try again.')
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
        ? `Conflict: ${JSON.stringify(name)} is deleted in the workspace; yours stays.`
        : `Conflict: ${JSON.stringify(name)} stays as you have it, also deleted; the workspace's is ${JSON.stringify(beside)}.`,
    )
}
