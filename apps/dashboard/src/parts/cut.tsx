import { plainText } from '../words/plain.ts'

/** A text on one line, cut off where it does not fit. Its title has the whole text. */
export const Cut = ({ text }: { text: string }) => (
  <span class="cut" title={plainText(text)}>
    {plainText(text)}
  </span>
)
