/** Content of the sandbox image, and the digest that names it: the same inputs need no second build. */
import { createHash } from 'node:crypto'
import type { ImageSize } from '@cofferdam/contract'
import { guestDigest } from '@cofferdam/sandbox/guest'

/** Repository of both images. On this host `latest` names the newest slim build, `full` the full one. */
export const REPOSITORY = 'cofferdam/sandbox'

/** Path of the agent in the image; libs/sandbox/src/docker/container-options.ts starts it there. */
export const AGENT_DIRECTORY = '/usr/lib/cofferdam/agent'

/**
 * The image's default user, for example in an Azure container pool, where agent and program share it. The
 * docker backend sets other users. The Dockerfile must name the same user.
 */
export const IMAGE_USER = '65534:65534'

/** Digest of the agent; the docker backend compares it (libs/sandbox/src/docker/choose-host.ts). */
export const AGENT_LABEL = 'cofferdam.guest'

/** Which of the two images it is, for the docker backend (libs/sandbox/src/docker/choose-host.ts). */
export const SIZE_LABEL = 'cofferdam.image'

/** Configures how getaddrinfo(3) resolves names. */
export const NSSWITCH = 'passwd: files\ngroup: files\nhosts: files myhostname dns\n'

/** Increase it if a change of the build scripts changes the image. */
const RECIPE_VERSION = 6

/** Bases of the registry flavour. */
export const PYTHON_IMAGE = 'python:3.13-slim'
export const NODE_IMAGE = 'node:26-slim'

/** npm of both flavours, with its registry digest. Same version as `packageManager` in package.json. */
export const NPM = {
  version: '11.19.1',
  integrity:
    'sha512-ztsxKxt/kkIaAs+2i0GU6I+DRmUdrNasxTZKJe9TCdSjKxlhah/4r/hl5ygMD6XAg1qZ9c2TNomR4qgOydp10g==',
} as const

/** Python packages that the registry flavour adds if missing. The Debian flavour uses Debian's. */
export const PYTHON_PACKAGES: Record<ImageSize, readonly string[]> = {
  slim: ['numpy==2.3.5', 'pandas==2.3.3', 'pytest==8.4.2'],
  full: [
    'numpy==2.3.5',
    'pandas==2.3.3',
    'pytest==8.4.2',
    'beautifulsoup4==4.14.2',
    'lxml==6.0.2',
    'matplotlib==3.10.7',
    'openpyxl==3.1.5',
    'pillow==12.0.0',
    'pyyaml==6.0.3',
    'requests==2.32.5',
    'scipy==1.16.3',
  ],
}

/** Debian packages of the commands of the full image (ONLY_FULL of the contract), for both flavours. */
const FULL_TOOLS = [
  'bc',
  'curl',
  'debianutils',
  'file',
  'git',
  'jq',
  'make',
  'perl',
  'procps',
  'unzip',
  'zip',
] as const

/**
 * Packages of the Debian flavour: interpreters, usual shell tools, pytest and pip for tasks, numpy and pandas
 * for the preload set `data`, libraries of node, the locale C.UTF-8, and libnss-myhostname. The last resolves
 * localhost and the host name, because Docker replaces /etc/hosts with an empty file. apt adds their
 * dependencies.
 */
const SLIM_PACKAGES = [
  'base-files',
  'bash',
  'ca-certificates',
  'coreutils',
  'dash',
  'diffutils',
  'findutils',
  'grep',
  'gzip',
  'libatomic1',
  'libc-bin',
  'libnss-myhostname',
  'libstdc++6',
  'mawk',
  'netbase',
  'patch',
  'python3',
  'python3-numpy',
  'python3-pandas',
  'python3-pip',
  'python3-pytest',
  'sed',
  'tar',
  'tzdata',
] as const

/** Packages of the Debian flavour. */
export const DEBIAN_PACKAGES: Record<ImageSize, readonly string[]> = {
  slim: SLIM_PACKAGES,
  full: [
    ...SLIM_PACKAGES,
    ...FULL_TOOLS,
    'python3-bs4',
    'python3-lxml',
    'python3-matplotlib',
    'python3-openpyxl',
    'python3-pil',
    'python3-requests',
    'python3-scipy',
    'python3-yaml',
  ],
}

/** Packages that the registry flavour installs from its base's Debian. */
export const toolsOf = (size: ImageSize): readonly string[] => (size === 'full' ? FULL_TOOLS : [])

export type Flavour = 'registry' | 'debian'

/** Image name and tag by the inputs. `node`: version of the copied binary (Debian flavour only). */
export function imageTag(flavour: Flavour, inputs: { size: ImageSize; node: string; suite: string }): string {
  const parts =
    flavour === 'registry'
      ? [PYTHON_IMAGE, NODE_IMAGE, ...PYTHON_PACKAGES[inputs.size], ...toolsOf(inputs.size)]
      : [inputs.suite, inputs.node, process.arch, ...DEBIAN_PACKAGES[inputs.size]]
  const hash = createHash('sha256')
  for (const part of [`recipe ${RECIPE_VERSION}`, flavour, NPM.integrity, guestDigest(), ...parts])
    hash.update(part).update('\0')
  return `${REPOSITORY}:${hash.digest('hex').slice(0, 16)}`
}
