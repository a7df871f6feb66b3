/** A project for planning, without a sandbox. */
import type { Program } from '@cofferdam/contract'

/** As in the guest agent, a star also matches a leading dot. */
const matches = (glob: string, path: string): boolean =>
  new RegExp(
    `^${glob.replaceAll(/\*\*\/|\*\*|\*|[^\w*/]/g, (part) => ({ '**/': '(.*/)?', '**': '.*', '*': '[^/]*' })[part] ?? `\\${part}`)}$`,
  ).test(path)

/** The two calls of a sandbox that planning needs, over files in memory. */
export function projectInMemory(files: Record<string, string>) {
  return {
    list: async (globs: readonly string[], max: number) =>
      Object.keys(files)
        .filter((path) => globs.some((glob) => matches(glob, path)))
        .filter((path) => !globs.some((glob) => glob.startsWith('!') && matches(`${glob.slice(1)}/**`, path)))
        .slice(0, max)
        .map((path) => ({ path, size: files[path]?.length ?? 0 })),
    read: async (path: string) => Buffer.from(files[path] ?? ''),
  }
}

/** The shell text of a planned command. */
export const shellOf = ({ program }: { program: Program }): string =>
  program.type === 'command' ? (program.shell ?? '') : ''
