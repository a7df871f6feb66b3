/** Creates real wheels and sdists from a name, a version and a few modules. */
import { createHash } from 'node:crypto'
import { tarArchive } from '../tar-archive.ts'
import { zipArchive } from '../zip-archive.ts'

export interface PythonPackage {
  name: string
  version: string
  /** Requirements (PEP 508). */
  requires?: readonly string[]
  requiresPython?: string
  /** Content by path. Default: one module with the package's name and its `__version__`. */
  files?: Record<string, string>
}

export interface Distribution {
  filename: string
  bytes: Buffer
  /** Core metadata of a wheel, served beside it (PEP 658). */
  metadata?: Buffer
  requiresPython?: string
}

const escaped = (name: string): string => name.toLowerCase().replaceAll(/[-_.]+/g, '_')

function metadata({ name, version, requires = [], requiresPython }: PythonPackage): Buffer {
  const lines = [
    'Metadata-Version: 2.1',
    `Name: ${name}`,
    `Version: ${version}`,
    ...(requiresPython === undefined ? [] : [`Requires-Python: ${requiresPython}`]),
    ...requires.map((requirement) => `Requires-Dist: ${requirement}`),
  ]
  return Buffer.from(`${lines.join('\n')}\n`)
}

function modules(of: PythonPackage): [string, Buffer][] {
  const files = of.files ?? { [`${escaped(of.name)}.py`]: `__version__ = ${JSON.stringify(of.version)}\n` }
  return Object.entries(files).map(([path, text]) => [path, Buffer.from(text)])
}

/** A pure-Python wheel (PEP 427). */
export function buildWheel(of: PythonPackage): Distribution {
  const info = `${escaped(of.name)}-${of.version}.dist-info`
  const about = metadata(of)
  const files = new Map<string, Buffer>([
    ...modules(of),
    [`${info}/METADATA`, about],
    [
      `${info}/WHEEL`,
      Buffer.from('Wheel-Version: 1.0\nGenerator: cofferdam\nRoot-Is-Purelib: true\nTag: py3-none-any\n'),
    ],
  ])
  const lines = [...files].map(([path, bytes]) => {
    const digest = createHash('sha256').update(bytes).digest('base64url')
    return `${path},sha256=${digest},${bytes.length}`
  })
  files.set(`${info}/RECORD`, Buffer.from(`${lines.join('\n')}\n${info}/RECORD,,\n`))
  return {
    filename: `${escaped(of.name)}-${of.version}-py3-none-any.whl`,
    bytes: zipArchive(files),
    metadata: about,
    ...(of.requiresPython === undefined ? {} : { requiresPython: of.requiresPython }),
  }
}

/** A source distribution (PEP 625) that setuptools builds. */
export function buildSdist(of: PythonPackage): Distribution {
  const top = `${escaped(of.name)}-${of.version}`
  const names = modules(of).map(([path]) => path.replace(/\.py$/, ''))
  const setup = `from setuptools import setup\nsetup(name=${JSON.stringify(of.name)}, version=${JSON.stringify(of.version)}, py_modules=${JSON.stringify(names)}, install_requires=${JSON.stringify(of.requires ?? [])})\n`
  const files = new Map<string, Buffer>([
    [`${top}/PKG-INFO`, metadata(of)],
    [`${top}/setup.py`, Buffer.from(setup)],
    ...modules(of).map(([path, bytes]): [string, Buffer] => [`${top}/${path}`, bytes]),
  ])
  return { filename: `${top}.tar.gz`, bytes: tarArchive(files) }
}
