/** Applies the patches of `apply_patch` to the files of a session. */
import { CofferdamError } from '@cofferdam/client'
import type { Editor, EditorResult, OpenAiAgentsSdk } from './openai-agents-shape.ts'
import type { SandboxFiles } from './session-files.ts'

/** Operations throw when the file is missing or the diff does not fit. The SDK tells the model. */
export function createEditor(files: SandboxFiles, applyDiff: OpenAiAgentsSdk<never>['applyDiff']): Editor {
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
