/** The widths in pixels and the colour schemes in which a test sees its page. */
import { isLongTier } from '@cofferdam/embedded/needs'

export type Look = readonly [width: 1280 | 390, scheme: 'light' | 'dark']

/**
 * All four in the long tier. The short tier sees the narrow and dark one, because its other tests see the
 * same pages wide and light.
 */
export const LOOKS: readonly Look[] = isLongTier()
  ? [
      [1280, 'light'],
      [1280, 'dark'],
      [390, 'light'],
      [390, 'dark'],
    ]
  : [[390, 'dark']]
