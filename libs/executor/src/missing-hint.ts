/**
 * Reads from the output of shells, Python and Node what a program did not find, and tells what to do about
 * it.
 */
import { imageName, ONLY_FULL } from '@cofferdam/contract'
import { commandNotFound, COMMAND_NOT_FOUND_EXIT } from '@cofferdam/tasks'

/** Python and Node print this when they cannot start a command. A name with a slash is the program's file. */
const NOT_STARTED = [
  /^FileNotFoundError: \[Errno 2\] No such file or directory: '([\w.+-]{1,100})'$/m,
  /\bspawn ([\w.+-]{1,100}) ENOENT\b/,
]
const NO_PYTHON_MODULE = /^ModuleNotFoundError: No module named '(\w{1,100})[\w.]{0,300}'/m
/** Matches no paths, which are the program's own files, and no `node:` modules, which are parts of Node. */
const NO_NODE_MODULE = /\bCannot find (?:module|package) '((?![./]|node:)[\w@./-]{1,200})'/

/** Searched characters at the end of stderr, where interpreters print their error. */
const TAIL = 4096

/** These backends run programs of the worker's host. All others use an image. */
const ON_HOST = new Set(['none', 'process'])
/** These backends run one of our two images. Vendors have their own images. */
const ON_OUR_IMAGE = new Set(['docker', 'gvisor'])

const INSTALL = 'a program of type "install" with the same session adds packages'

/** Sentences to add to a failure reason. Null when nothing was missing. `printed` is the stderr. */
export function missingHint(backend: string, exitCode: number | null, printed: string): string | null {
  const tail = printed.slice(-TAIL)
  const command = commandNotFound(tail)
  if (command !== null && (exitCode === COMMAND_NOT_FOUND_EXIT || isOfFull(command)))
    return sentence(backend, command, isOfFull(command), null)
  for (const pattern of NOT_STARTED) {
    const name = pattern.exec(tail)?.[1]
    if (name !== undefined && isOfFull(name)) return sentence(backend, name, true, null)
  }
  const python = NO_PYTHON_MODULE.exec(tail)?.[1]
  if (python !== undefined) {
    const packageName = ONLY_FULL.modules[python]
    const named =
      packageName === undefined || packageName === python ? python : `${python} (package ${packageName})`
    return sentence(backend, named, packageName !== undefined, INSTALL)
  }
  const node = NO_NODE_MODULE.exec(tail)?.[1]
  return node === undefined ? null : sentence(backend, node, false, INSTALL)
}

const isOfFull = (command: string): boolean => ONLY_FULL.commands.some((name) => name === command)

function sentence(backend: string, name: string, isOfFullImage: boolean, install: string | null): string {
  const where = ON_HOST.has(backend) ? "on the worker's host" : 'in the image'
  const ways = [
    ...(isOfFullImage && ON_OUR_IMAGE.has(backend)
      ? [`an operator can set the image to ${imageName('full')}, which has it`]
      : []),
    ...(install === null ? [] : [install]),
  ].join('; or ')
  return `Not ${where}: ${name}.${ways === '' ? '' : ` ${ways.charAt(0).toUpperCase()}${ways.slice(1)}.`}`
}
