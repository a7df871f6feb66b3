/**
 * What a session brings along: the skills of its agent, and its memory stores. The SDK downloads both to this
 * host, into the folder of the work item. From there they go into the sandbox, and changed memories come
 * back.
 */
import type { AgentToolContext } from '@anthropic-ai/sdk/tools/agent-toolset/node'
import type { Logger } from '@cofferdam/telemetry'
import { join } from 'node:path'
import { openMemories } from './memories.ts'
import { readFolder, wholeRoom } from './read-folder.ts'
import type { SessionSandbox } from './session-sandbox.ts'
import type { ToolRoots } from './tools/tool.ts'

export interface Materials {
  /** The folders that file tools may use. */
  roots: ToolRoots
  /** Saves changed memories, unless the last sync was recent. Called after each tool call. */
  sync(): Promise<void>
  /** Saves changed memories. Called at the end. */
  finish(): Promise<void>
}

/** Where an agent's prompt tells it to put its results. */
const OUTPUTS = '/mnt/session/outputs'

/** Resolves when the sandbox has everything. Rejects if a memory store cannot be provided. */
export async function materialise(
  context: AgentToolContext,
  workdir: string,
  sandbox: SessionSandbox,
  logger: Logger,
): Promise<Materials> {
  // Memories take their room first: an agent can do with fewer skills, but not without its memories.
  const room = wholeRoom()
  const memories = await openMemories(context, workdir, sandbox, room)
  const skills = await readFolder(join(workdir, 'skills'), 'skills', room)
  const files = [...skills.files, ...memories.files]
  const omitted = skills.omitted + memories.omitted
  if (omitted > 0)
    logger.warn(
      { session_id: context.session?.id, omitted },
      'some files of a session are too large or too many for its sandbox',
    )
  await sandbox.provide(files)
  const quietly = async (keep: () => Promise<void>): Promise<void> => {
    try {
      await keep()
    } catch (error) {
      logger.warn({ err: error, session_id: context.session?.id }, 'memories of a session were not kept')
    }
  }
  return {
    roots: {
      workdir: sandbox.workdir,
      allowed: [OUTPUTS, ...memories.mounts],
      readOnly: memories.readOnlyMounts,
    },
    sync: () => quietly(() => memories.sync()),
    finish: () => quietly(() => memories.finish()),
  }
}
