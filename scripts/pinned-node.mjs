/**
 * Makes sure that the Node that npm installed starts on this machine.
 *
 *   starts ───────────────────────────────► node_modules/.bin/node as npm linked it
 *   lacks libatomic, Debian packages at hand ► .bin/node becomes a wrapper with a private copy of the library
 *   does not start ────────────────────────► .bin/node is removed: npm scripts put it first on PATH, so a
 *                                             broken one would keep bootstrap.mjs from starting
 *
 * Node 26 needs libatomic.so.1, which neither Debian's minimal system nor the package of an older Node
 * brings. Plain JavaScript without dependencies, like bootstrap.mjs.
 */
import { spawnSync } from 'child_process'
import fs from 'fs'
import path from 'path'

/** Longer than a first start from a cold disk. */
const START_MS = 60000
const DOWNLOAD_MS = 60000

const quote = (text) => "'" + text.split("'").join("'\\''") + "'"

/** The path of a Node that starts, or why there is none: `{ node }` or `{ why }`. */
export function settlePinnedNode(root) {
  const modules = path.join(root, 'node_modules')
  const link = path.join(modules, '.bin', process.platform === 'win32' ? 'node.exe' : 'node')
  const binary = installedBinary(root)
  if (binary === null) return { why: 'there is no binary for ' + process.platform + ' on ' + process.arch }
  if (!fs.existsSync(link)) relink(link, binary)
  let why = whyNot(link)
  if (why === null) return { node: link }
  if (why.includes('libatomic.so.1')) {
    const library = privateLibatomic(path.join(modules, '.cache', 'libatomic'))
    if (library !== null) {
      fs.rmSync(link, { force: true })
      const search = quote(library) + '"${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"'
      fs.writeFileSync(link, '#!/bin/sh\nLD_LIBRARY_PATH=' + search + ' exec ' + quote(binary) + ' "$@"\n', {
        mode: 0o755,
      })
      if (whyNot(link) === null) {
        process.stderr.write(
          'cofferdam: Node.js needs libatomic1, which this machine lacks; a private copy is used.\n' +
            '  JavaScript programs in sandboxes need it too: sudo apt-get install libatomic1\n',
        )
        return { node: link }
      }
    }
    why +=
      '\nInstall it: sudo apt-get install libatomic1 (Debian, Ubuntu), sudo dnf install libatomic (Fedora)'
  }
  fs.rmSync(link, { force: true })
  return { why }
}

/** The binary of this platform's package. Null when none is installed. */
function installedBinary(root) {
  const manifest = JSON.parse(fs.readFileSync(path.join(root, 'package.json'), 'utf8'))
  const names = Object.keys(manifest.optionalDependencies || {}).filter((name) => name.startsWith('node-'))
  const file = process.platform === 'win32' ? 'node.exe' : path.join('bin', 'node')
  const found = names
    .map((name) => path.join(root, 'node_modules', name, file))
    .find((full) => fs.existsSync(full))
  return found || null
}

function relink(link, binary) {
  try {
    fs.mkdirSync(path.dirname(link), { recursive: true })
    fs.symlinkSync(path.relative(path.dirname(link), binary), link)
  } catch {
    // The tree belongs to another user. `whyNot` then reports that there is no such file.
  }
}

/** Null when it starts, else the loader's message. */
export function whyNot(node) {
  const { error, status, stderr } = spawnSync(node, ['--version'], { encoding: 'utf8', timeout: START_MS })
  if (error) return error.message
  return status === 0 ? null : stderr.trim() || 'it ended with status ' + status
}

/** A folder with libatomic.so.1 from Debian's package, without root. Null when it is not available. */
function privateLibatomic(folder) {
  fs.rmSync(folder, { recursive: true, force: true })
  fs.mkdirSync(folder, { recursive: true })
  const run = (command, args) =>
    spawnSync(command, args, { cwd: folder, stdio: 'ignore', timeout: DOWNLOAD_MS }).status === 0
  if (!run('apt-get', ['download', '-q', 'libatomic1'])) return null
  const archive = fs.readdirSync(folder).find((name) => name.endsWith('.deb'))
  if (!archive || !run('dpkg-deb', ['-x', archive, 'root'])) return null
  for (const base of [path.join(folder, 'root/usr/lib'), path.join(folder, 'root/lib')]) {
    for (const name of fs.existsSync(base) ? fs.readdirSync(base) : [])
      if (fs.existsSync(path.join(base, name, 'libatomic.so.1'))) return path.join(base, name)
  }
  return null
}
