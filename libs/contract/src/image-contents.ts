/**
 * The modules and commands of our two sandbox images. The slim image is quick to build and start. The full
 * image has what people and models expect of a machine. infra/images builds both and checks every name. If a
 * program misses one of these names, the executor tells which image has it.
 */
export const IMAGE_SIZES = ['slim', 'full'] as const
export type ImageSize = (typeof IMAGE_SIZES)[number]

/** Python packages by their import name. */
const SLIM_MODULES = { numpy: 'numpy', pandas: 'pandas', pytest: 'pytest' }

export const ONLY_FULL = {
  commands: ['which', 'git', 'curl', 'jq', 'ps', 'zip', 'unzip', 'file', 'bc', 'make', 'perl'],
  modules: {
    PIL: 'pillow',
    bs4: 'beautifulsoup4',
    lxml: 'lxml',
    matplotlib: 'matplotlib',
    openpyxl: 'openpyxl',
    requests: 'requests',
    scipy: 'scipy',
    yaml: 'pyyaml',
  } as Readonly<Record<string, string>>,
} as const

/** Python modules of an image, without the standard library. */
export const imageModules = (size: ImageSize): string[] =>
  Object.keys(size === 'full' ? { ...SLIM_MODULES, ...ONLY_FULL.modules } : SLIM_MODULES).toSorted()

/** Commands of an image, without bash, node, npm, python3 and the POSIX utilities. */
export const imageCommands = (size: ImageSize): readonly string[] =>
  size === 'full' ? ONLY_FULL.commands : []

/** The tag of our own image that always names its newest build on a host. */
export const imageName = (size: ImageSize): string =>
  `cofferdam/sandbox:${size === 'full' ? 'full' : 'latest'}`
