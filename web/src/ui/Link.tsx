import { Anchor, type AnchorProps, Button, type ButtonProps } from "@mantine/core";
import { createLink } from "@tanstack/react-router";
import { type AnchorHTMLAttributes, forwardRef } from "react";

type Plain<Own> = Own & Omit<AnchorHTMLAttributes<HTMLAnchorElement>, keyof Own>;

/** Text link to a page of the dashboard. */
export const Link = createLink(
  forwardRef<HTMLAnchorElement, Plain<AnchorProps>>((props, ref) => <Anchor ref={ref} {...props} />),
);

/** Button that links to a page of the dashboard. */
export const LinkButton = createLink(
  forwardRef<HTMLAnchorElement, Plain<ButtonProps>>((props, ref) => (
    <Button component="a" ref={ref} {...props} />
  )),
);
