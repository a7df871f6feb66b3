/** The output of an ended execution, as its result has it. */
import type { ExecutionResult } from '@cofferdam/client'
import { createLineBuffer, type Block, type Stream } from './line-buffer.ts'

/** The blocks of one stream. A text of the result has at most a few hundred KiB. */
export function keptBlocks(result: ExecutionResult, stream: Stream): readonly Block[] {
  const buffer = createLineBuffer()
  buffer.add(stream, result[stream])
  return buffer.blocks()
}
