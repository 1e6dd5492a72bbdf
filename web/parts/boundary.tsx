"use client";
/** Where a part of a page fails, the rest of it stays. */
import { Component } from "react";
import { later } from "@/lib/lazy";

const Undrawn = later(() => import("./undrawn").then((found) => found.Undrawn));

interface Props {
  what: string;
  children: React.ReactNode;
  onLeave?: () => void;
}

export class Boundary extends Component<Props, { error?: Error }> {
  state: { error?: Error } = {};

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  render() {
    const { error } = this.state;
    return error ? <Undrawn {...this.props} error={error} again={() => this.setState({ error: undefined })} /> : this.props.children;
  }
}
